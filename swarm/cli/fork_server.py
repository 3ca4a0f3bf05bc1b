"""Workers that share their imports: torch and transformers are imported once, in a process that is then forked.

    up ── starts ──▶ fork server       imports what a worker imports; has one thread, and touches no device
    up ── words, variables, a pipe ──▶ fork server ── fork ──▶ ∘ ── fork ──▶ worker, in a session of its own
       ◀──────────── its process id ──────────────┘            └ ends: the worker is a child of up

Imports are most of what starting a worker costs, and most of the memory of a small one. A worker that was forked is an
ordinary one in all else: it reads its settings from its own variables, and runs the command that a person would type.
The server ends with the last worker that it was started for, for it would hold 90 MB that no worker uses. A worker that
starts again imports by itself.

For Linux, and for workers that compute on its processors: no library of a GPU bears a fork. Wherever it cannot work,
`ForkServer.start` returns None, after one warning, and the command is started plainly.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from types import TracebackType
from typing import NamedTuple, NoReturn, Self

import anyio
import msgspec
from anyio import to_thread

from swarm.children import child_environment, module_command
from swarm.cli.say import warn

IMPORTED = (
    *("torch", "transformers", "transformers.models.auto.modeling_auto", "transformers.models.auto.tokenization_auto"),
    *("swarm.policy.policy", "swarm.policy.settings", "swarm.node.worker.worker", "swarm.node.worker.checkpoints"),
    *("swarm.tasks.scoring", "swarm.cli.node"),
    *("transformers.models.qwen2.modeling_qwen2", "transformers.models.gpt2.modeling_gpt2"),
)
"""What every worker imports, and the architectures of the embedded models."""
_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
"""One of them is where a GPU of NVIDIA's or AMD's is, or Windows' below Linux."""
_MOST = 2**20
"""Bytes of a request."""
_CHUNK = 65_536
_SUBREAPER, _NAME = 36, 15
"""PR_SET_CHILD_SUBREAPER and PR_SET_NAME of linux/prctl.h."""


class ForkRequest(msgspec.Struct, frozen=True):
    """Says what one worker is; a pipe goes with it."""

    words: tuple[str, ...]
    """Words of the command, without `swarm`."""
    environ: dict[str, str]


def can_fork(devices: Collection[str | None]) -> bool:
    """Tells whether workers with these settings of `device` may be forked here; None: the GPU, if there is one."""
    on_cpu = {*devices} == {"cpu"} or ({*devices} <= {"cpu", None} and not any(map(os.path.exists, _DEVICES)))
    return on_cpu and sys.platform == "linux" and hasattr(os, "pidfd_open")


# ── its side of the supervisor ──────────────────────────────────────────────────────────────────────────────────────
class ForkedProcess:
    """A worker that was forked, as anyio.abc.Process: a child of this process, whose output comes through a pipe."""

    def __init__(self, pid: int, said: int) -> None:
        """Takes over the pipe. Raises OSError: it is no child of this process."""
        self.pid = pid
        self.returncode: int | None = None
        self._said = said
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        self._descriptor = os.pidfd_open(pid)

    @property
    def stdout(self) -> AsyncIterator[bytes]:
        return self._chunks()

    async def _chunks(self) -> AsyncIterator[bytes]:
        while True:
            await anyio.wait_readable(self._said)
            if not (chunk := os.read(self._said, _CHUNK)):
                return
            yield chunk

    def send_signal(self, number: signal.Signals) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    async def wait(self) -> int:
        """Waits for its end; returns its exit code, negative the signal that killed it."""
        while self.returncode is None:
            await anyio.wait_readable(self._descriptor)
            _, status = os.waitpid(self.pid, os.WNOHANG)  # noqa: ASYNC222 - it has ended
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind:
            self.send_signal(signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await self.wait()
        os.close(self._descriptor)
        os.close(self._said)


class ForkServer:
    def __init__(self, channel: socket.socket, forks: int) -> None:
        """`forks`: the server ends after so many."""
        self._channel = channel
        self._turn = anyio.Lock()
        self._left = forks

    async def start(self, words: Sequence[str], environ: Mapping[str, str]) -> ForkedProcess | None:
        """Starts a `swarm` command with these variables; None: the server has ended, or cannot."""
        request = msgspec.msgpack.encode(ForkRequest(tuple(words), dict(environ)))
        async with self._turn:
            if not self._left:
                return None
            self._left -= 1
            said, says = os.pipe()
            try:
                pid = await to_thread.run_sync(self._ask, request, says, abandon_on_cancel=True)
                return ForkedProcess(pid, said)
            except (OSError, ValueError) as error:
                os.close(said)
                self._left = 0
                cause = str(error) if isinstance(error, OSError) else "the process that forks them has ended"
                warn(f"workers cannot be forked here ({cause}); each imports torch by itself: seconds and memory")
                return None
            finally:
                os.close(says)

    def _ask(self, request: bytes, says: int) -> int:
        """Returns the process id. Raises OSError, ValueError: there is none."""
        socket.send_fds(self._channel, [request], [says])
        return int(self._channel.recv(_CHUNK))


@asynccontextmanager
async def fork_server(
    environ: Mapping[str, str], forks: int, imported: Sequence[str] = IMPORTED
) -> AsyncIterator[ForkServer]:
    """Runs a fork server. Workers that were forked become children of this process.

    Args:
        environ: variables of the server: those that workers have in common.
        forks: how many workers it forks before it ends; at the latest it ends with the block.
        imported: modules that it imports.
    """
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    libc = ctypes.CDLL(None)
    with ours:
        with its:
            process = await anyio.open_process(
                module_command("swarm.cli.fork_server", str(its.fileno()), str(forks), *imported),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,  # as workers have it: what they say goes to a pipe of their own
                stderr=subprocess.STDOUT,
                env=child_environment(environ) | {"OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,
                pass_fds=(its.fileno(),),
            )
        libc.prctl(_SUBREAPER, 1, 0, 0, 0)
        async with process:
            try:
                yield ForkServer(ours, forks)
            finally:
                libc.prctl(_SUBREAPER, 0, 0, 0, 0)
                with suppress(ProcessLookupError):
                    process.kill()


# ── the server ──────────────────────────────────────────────────────────────────────────────────────────────────────
class _Asked(NamedTuple):
    """A request, in the process that is to be the worker."""

    request: ForkRequest
    says: int


def serve(channel: socket.socket, forks: int, imported: Sequence[str]) -> _Asked | None:
    """Forks a worker for each request, so many. Returns None in the server, then or once nobody asks any more, and in
    each worker what it is to be."""
    import_all(imported)
    gc.collect()
    gc.freeze()  # what was imported stays, and stays shared
    for _ in range(forks):
        message, descriptors, _, _ = socket.recv_fds(channel, _MOST, 1)
        if not message:
            return None
        if len(os.listdir("/proc/self/task")) > 1:  # whose locks a fork would leave as they are
            return None
        asked = _Asked(msgspec.msgpack.decode(message, type=ForkRequest), *descriptors)
        if (pid := _fork()) == 0:
            return asked
        channel.send(b"%d" % pid)
        os.close(asked.says)
    return None


def import_all(modules: Sequence[str]) -> None:
    """Imports modules as if scipy, which nothing has imported yet, were not installed: where it is, transformers
    imports it for losses that no language model has (34 MB, half a second). Workers may import it.

    Looking for garbage meanwhile finds none, and takes a seventh of the time."""
    sys.modules["scipy"] = None  # type: ignore[assignment]
    gc.disable()
    try:
        for module in modules:
            import_module(module)
    finally:
        gc.enable()
        del sys.modules["scipy"]


def _fork() -> int:
    """Returns 0 in a process of a session of its own whose parent is the nearest subreaper, and its id in this one."""
    told, tells = os.pipe()
    try:
        between = os.fork()
        if between:
            os.waitpid(between, 0)
            return int(os.read(told, 20))
        between = os.getpid()
        if os.fork():
            os._exit(0)
        while os.getppid() == between:
            time.sleep(0.001)
        os.setsid()
        os.write(tells, b"%d" % os.getpid())
        return 0
    finally:
        os.close(told)
        os.close(tells)


def _be(asked: _Asked) -> NoReturn:
    from swarm.cli.main import run

    for standard in (1, 2):
        os.dup2(asked.says, standard)
    os.close(asked.says)
    os.environ.clear()
    os.environ.update(asked.request.environ)
    random.seed()
    name = f"swarm {os.environ.get('NODE_ID', '')}".encode()
    ctypes.CDLL(None).prctl(_NAME, ctypes.c_char_p(name), 0, 0, 0)  # 15 bytes of it, as `top` shows them
    sys.argv = ["swarm", *asked.request.words]
    _leave(run(asked.request.words))


def _leave(code: int) -> NoReturn:
    """Ends this process without taking its modules apart: that writes to all pages that workers share, so that each of
    them would need a copy of its own to end."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # nobody reads it any more
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as opened:
        found = serve(opened, int(sys.argv[2]), sys.argv[3:])
    if found:
        _be(found)
