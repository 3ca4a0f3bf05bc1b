"""Client of one scoring server process: starts it, exchanges messages with time-outs, replaces it after a failure.

    waits for   its process's reply, at most the time that the caller gives
    unblocks    the queue that holds it (see `swarm.tasks.scoring`)

Any call that does not end well, a cancelled one included, kills the process: its stream may hold half a message.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

import anyio
import msgspec
from anyio.abc import ByteReceiveStream, Process, TaskGroup, TaskStatus
from anyio.streams.buffered import BufferedByteReceiveStream

from swarm.children import child_environment, module_command
from swarm.errors import ConfigError, ScoringError
from swarm.logs import get_logger
from swarm.tasks.bounded import HEADER_BYTES, frame, payload_length
from swarm.tasks.conversation import Conversing
from swarm.tasks.scoring_messages import ServerReady, Setup, Unable

logger = get_logger(__name__)
_decode_ready: Callable[[bytes], ServerReady | Unable] = msgspec.msgpack.Decoder(ServerReady | Unable).decode

_COMMAND = tuple(module_command("swarm.tasks.scoring_server"))
_KEPT_VARIABLES = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")

FIRST_BACKOFF_S = 0.1
LONGEST_BACKOFF_S = 5.0
LAST_WORDS_S = 1.0
STDERR_LINE_LIMIT = 1_000
"""Characters of a stderr line that are logged."""

_LOST = (
    TimeoutError,
    anyio.EndOfStream,
    anyio.IncompleteRead,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,  # its owner was the first to see that it ended
)


class ServerLostError(ScoringError):
    """The server died, said nothing in time, or could not be started."""


class ScoringProcess:
    """One server process at a time; calls must not overlap."""

    def __init__(self, tasks: TaskGroup, setup: Setup, *, start_timeout_s: float) -> None:
        self._tasks = tasks
        self._setup = msgspec.msgpack.encode(setup)
        self._start_timeout_s = start_timeout_s
        self._process: Process | None = None
        self._failures = 0
        self.conversing: dict[str, Conversing] = {}
        """How tasks converse, by full name; of a server that is ready."""

    @property
    def pid(self) -> int | None:
        """Process id of the server, None while there is none."""
        return self._process.pid if self._process else None

    async def spawn(self) -> None:
        """Start a server, after a back-off if the last one failed. Raises ServerLostError."""
        if self._failures:
            await anyio.sleep(min(FIRST_BACKOFF_S * 2 ** (self._failures - 1), LONGEST_BACKOFF_S))
        try:
            self._process = await self._tasks.start(self._own_a_process)
        except OSError as error:
            self._failures += 1
            raise ServerLostError(f"cannot start {' '.join(_COMMAND)}: {error}") from error

    async def wait_until_ready(self) -> None:
        """Wait until the spawned server has imported what it needs.

        Raises:
            ServerLostError: it has not, in time.
            ConfigError: a task that the run defines cannot be asked.
            ScoringError: no child can work on this machine.
        """
        ready = _decode_ready(await self._exchange(self._setup, self._start_timeout_s))
        if isinstance(ready, Unable):
            raise ScoringError(ready.problem) if ready.machine else ConfigError(ready.problem)
        self.conversing = ready.conversing
        logger.debug("scorer.ready", pid=self.pid, bars=ready.bars, **ready.versions)

    async def call(self, request: bytes, timeout_s: float) -> bytes:
        """Send a request and wait for its reply. Raises ServerLostError; the next call then starts a new server."""
        if self._process is None:
            await self.spawn()
            await self.wait_until_ready()
        reply = await self._exchange(request, timeout_s)
        self._failures = 0
        return reply

    async def _exchange(self, request: bytes, timeout_s: float) -> bytes:
        """Send and receive one message, or kill the process."""
        process = self._process
        assert process is not None
        reply = None
        try:
            with anyio.fail_after(timeout_s):
                reply = await _converse(process, request)
        except _LOST as error:
            await self._last_words(process)
            raise ServerLostError(
                f"server {process.pid} gave no reply within {timeout_s} s ({error!r}); see the scorer.stderr events"
            ) from error
        finally:
            if reply is None:
                self._failures += 1
                self._process = None
                _kill(process)
        return reply

    async def _last_words(self, process: Process) -> None:
        """Let what it said on stderr reach the log before the failure does."""
        _kill(process)
        with anyio.move_on_after(LAST_WORDS_S):
            await self._ended.wait()

    async def _own_a_process(self, *, task_status: TaskStatus[Process]) -> None:
        """Open the process, log what it says on stderr, and reap it when it has ended or the node stops."""
        async with await anyio.open_process(
            _COMMAND,
            env=server_environment(),
            start_new_session=True,  # a Ctrl-C in the terminal is the node's to handle
        ) as process:
            ended = self._ended = anyio.Event()
            task_status.started(process)
            assert process.stderr is not None
            await _log_lines(process.stderr, process.pid)
            ended.set()


def _kill(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()


async def _converse(process: Process, request: bytes) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    await process.stdin.send(frame(request))
    stream = BufferedByteReceiveStream(process.stdout)  # holds nothing over: a server speaks only when asked
    return await stream.receive_exactly(payload_length(await stream.receive_exactly(HEADER_BYTES)))


async def _log_lines(stderr: ByteReceiveStream, pid: int) -> None:
    """Log complete lines until the stream ends; no more than a line is held."""
    pending = ""
    async for chunk in stderr:
        *lines, pending = (pending + chunk.decode(errors="replace")).split("\n")
        for line in lines:
            logger.warning("scorer.stderr", pid=pid, line=line[:STDERR_LINE_LIMIT])
        pending = pending[:STDERR_LINE_LIMIT]
    if pending:
        logger.warning("scorer.stderr", pid=pid, line=pending)


def server_environment() -> dict[str, str]:
    """Returns an environment with no secrets (the node's token is none of a scorer's business), one thread, and the
    same hashes everywhere."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return child_environment(kept) | {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
