"""Workers that are forked from one process are children like those that are started plainly."""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import anyio
import pytest

from swarm.cli.fork_server import IMPORTED, ForkedProcess, ForkServer, can_fork, fork_server, import_all
from swarm.cli.supervisor import DaemonChild, Supervisor
from tests.patience import PATIENCE
from tests.unit.node.nodes import until

pytestmark = pytest.mark.skipif(not can_fork(["cpu"]), reason="needs Linux with pidfd")
LIGHT = ("swarm.cli.main",)
NOT_A_ROLE = {"NODE_ROLE": "nobody"}


def with_forks(use: Callable[[ForkServer], Awaitable[None]], imported: str = "", most: int = 9, **environ: str) -> None:
    async def main() -> None:
        with anyio.fail_after(PATIENCE):
            async with fork_server({**os.environ, **environ}, most, [*LIGHT, *imported.split()]) as forks:
                await use(forks)

    anyio.run(main)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def children_of(pid: int) -> set[int]:
    return {int(one) for task in Path(f"/proc/{pid}/task").iterdir() for one in (task / "children").read_text().split()}


def is_alive(pid: int) -> bool:
    """A process that has ended and that nobody has asked for yet is not."""
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


async def said_by(process: ForkedProcess) -> str:
    return b"".join([chunk async for chunk in process.stdout]).decode()


async def started(forks: ForkServer, *words: str, **environ: str) -> ForkedProcess:
    process = await forks.start(words, {**os.environ, **environ})
    assert process is not None
    return process


def test_a_forked_command_says_and_ends_as_a_started_one_with_its_own_variables() -> None:
    async def use(forks: ForkServer) -> None:
        async with await started(forks, "node", "--help") as process:
            assert "Usage: swarm node" in await said_by(process)
            assert await process.wait() == 0
        async with await started(forks, "node", **NOT_A_ROLE) as process:
            assert "'nobody'" in await said_by(process)
            assert await process.wait() == process.returncode == 2

    with_forks(use)


def test_scipy_is_not_found_while_the_server_imports_and_is_there_again_for_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = find_spec("scipy")
    monkeypatch.delitem(sys.modules, "scipy", raising=False)
    (tmp_path / "looks_for_scipy.py").write_text("from importlib.util import find_spec\nFOUND = find_spec('scipy')\n")
    monkeypatch.syspath_prepend(tmp_path)
    import_all(["looks_for_scipy"])
    assert sys.modules.pop("looks_for_scipy").FOUND is None
    assert (find_spec("scipy") is None) == (before is None)


def test_a_forked_worker_is_this_process_child_in_a_session_of_its_own_and_dies_with_the_block() -> None:
    lives: list[int] = []

    async def use(forks: ForkServer) -> None:
        process = await started(forks, "logs", "--follow", GDRIVE_PATH="/nowhere")
        lives.append(process.pid)
        with suppress(RuntimeError):
            async with process:
                assert os.getsid(process.pid) == process.pid
                assert parent_of(process.pid) == os.getpid()
                raise RuntimeError

    with_forks(use)
    assert not os.path.exists(f"/proc/{lives[0]}")


def test_a_worker_does_what_is_left_for_its_end_and_takes_no_shared_module_apart(tmp_path: Path) -> None:
    """Else every worker needs a copy of all that they share, to end."""
    apart = tmp_path / "apart"
    code = f"import atexit; atexit.register(print, 'left for the end'); kept = open({str(apart)!r}, 'w'); "
    code += "kept.write('x')"
    (tmp_path / "farewell.py").write_text(code)

    async def use(forks: ForkServer) -> None:
        async with await started(forks, "node", "--help") as process:
            assert "left for the end" in await said_by(process)
            assert await process.wait() == 0

    with_forks(use, "farewell", PYTHONPATH=f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert apart.read_text() == "", "what a module held was let go of"


def test_a_killed_worker_has_its_signal_as_exit_code() -> None:
    async def use(forks: ForkServer) -> None:
        async with await started(forks, "web", "--help") as process:
            process.send_signal(signal.SIGKILL)
            assert await process.wait() in (-signal.SIGKILL, 0)
            process.send_signal(signal.SIGKILL)  # which nobody hears any more

    with_forks(use)


def test_where_the_server_has_died_workers_are_started_plainly_and_that_is_said_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def use(forks: ForkServer) -> None:
        async with await started(forks, "--version") as process:
            await process.wait()
        forks._channel.shutdown(2)
        for name in ("worker-0", "worker-1"):
            child = DaemonChild(name, "worker", {"SEED": "seven"})
            await Supervisor(os.environ, forks).run(child)
            assert child.exit_code == 2
            assert any("'seven'" in line for line in child.lines)

    with_forks(use)
    assert capsys.readouterr().err.count("workers cannot be forked here") == 1


def test_the_server_ends_with_its_last_worker_which_lives_on_and_the_next_is_started_plainly(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def use(forks: ForkServer) -> None:
        others = children_of(os.getpid())
        async with await started(forks, "logs", "--follow", GDRIVE_PATH="/nowhere") as process:
            (server,) = others - {process.pid}
            await until(lambda: not is_alive(server))
            assert is_alive(process.pid)
            child = DaemonChild("worker-0", "worker", {"SEED": "seven"})
            await Supervisor(os.environ, forks).run(child)
            assert any("'seven'" in line for line in child.lines)
            process.send_signal(signal.SIGKILL)

    with_forks(use, most=1)
    assert "cannot be forked" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("devices", "gpu", "holds"),
    [(["cpu", "cpu"], True, True), ([None, "cpu"], False, True), ([None], True, False), (["cuda"], False, False)],
)
def test_workers_of_a_gpu_are_never_forked(
    devices: list[str | None], gpu: bool, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm.cli.fork_server._DEVICES", (sys.executable if gpu else "/dev/no-such-card",))
    assert can_fork(devices) is holds


def test_what_workers_import_is_there() -> None:
    """Where one module is not, workers are started plainly, and only the time tells."""
    assert all(find_spec(name) for name in IMPORTED)
