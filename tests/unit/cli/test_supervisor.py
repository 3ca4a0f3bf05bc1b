"""Child daemons get the settings of `swarm up`, and nobody else's."""

import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from swarm.children import code_command
from swarm.cli import supervisor
from swarm.cli.supervisor import DaemonChild, Supervisor
from tests.patience import PATIENCE


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "MOMENT", 0.0)
    monkeypatch.setattr(supervisor, "RESTART_PAUSES", (0.0, 0.0, 0.0))


def run_child(
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    settings: dict[str, str] | None = None,
    parent: Supervisor | None = None,
    beside: Callable[[], Awaitable[None]] | None = None,
) -> DaemonChild:
    """Run a child whose program is `code` instead of a daemon, and something beside it."""
    child, parent = DaemonChild("worker-0", "worker", settings or {}), parent or Supervisor({})
    monkeypatch.setattr(supervisor, "module_command", lambda *_: code_command(code))

    async def main() -> None:
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                if beside:
                    tasks.start_soon(beside)
                await parent.run(child)

    anyio.run(main)
    return child


def test_a_child_gets_the_settings_it_was_given_and_none_of_the_surrounding_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = "import os; print(os.environ['GDRIVE_PATH'], os.environ.get('SWARM_PATH'), os.environ.get('SEED'))"
    parent = Supervisor({"SWARM_PATH": "./x", "SEED": "7", "HOME": "/"})
    child = run_child(monkeypatch, code, {"GDRIVE_PATH": "/shared"}, parent)
    assert (list(child.lines), child.exit_code) == (["/shared None None"], 0)


def test_a_childs_last_words_are_kept_even_without_a_newline(monkeypatch: pytest.MonkeyPatch) -> None:
    child = run_child(monkeypatch, "import sys; sys.stderr.write('one\\ntwo'); sys.exit(3)")
    assert (list(child.lines), child.exit_code) == (["one", "two"], 3)


def test_a_secret_reaches_the_child_but_not_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = {"HUGGINGFACE_ACCESS_TOKEN": "hf_secret", "NODE_ID": "w"}
    child = run_child(monkeypatch, "import os; print(os.environ['HUGGINGFACE_ACCESS_TOKEN'])", secret)
    assert list(child.lines) == ["hf_secret"]
    assert child.command == "NODE_ID=w swarm node --role worker"


@pytest.mark.parametrize(("code", "fails"), [(0, False), (143, False), (1, True)])
def test_a_child_that_fails_while_it_stops_has_failed_all_the_same(
    monkeypatch: pytest.MonkeyPatch, code: int, fails: bool
) -> None:
    parent = Supervisor({})

    async def stop() -> None:
        await parent.heard()
        parent.stop(signal.SIGTERM)

    ends = f"import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit({code}))\n"
    child = run_child(
        monkeypatch, f"{ends}print('here', flush=True)\nwhile True: signal.pause()", parent=parent, beside=stop
    )
    assert (child.exit_code, parent.failure is child) == (code, fails)


KILLS_ITSELF = "print('hello', flush=True); import os; os.kill(os.getpid(), 9)"


def test_a_child_that_was_killed_starts_again_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark, parent = tmp_path / "mark", Supervisor({})
    once = f"import pathlib; m = pathlib.Path({str(mark)!r})\nif not m.exists(): m.touch(); {KILLS_ITSELF}"
    child = run_child(monkeypatch, f"{once}\nprint('back')", parent=parent)
    assert (child.exit_code, parent.failure, list(child.lines)) == (0, None, ["hello", "back"])
    assert capsys.readouterr().out == "worker-0 was killed by signal 9 (Killed); it starts again in 0 s\n"


def test_nobodys_death_is_reported_as_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parent = Supervisor({})
    child = run_child(monkeypatch, KILLS_ITSELF, parent=parent)
    assert (child.exit_code, parent.failure, parent.stopping) == (-9, child, True)
    assert list(child.lines) == ["hello"] * 4
    assert capsys.readouterr().out.count("it starts again") == 3


@pytest.mark.parametrize("code", [1, 2, 143])
def test_a_child_that_ended_by_itself_does_not_start_again(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    child = run_child(monkeypatch, f"print('hello'); import sys; sys.exit({code})")
    assert (child.exit_code, list(child.lines)) == (code, ["hello"])


def test_a_stop_during_the_pause_before_a_restart_is_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    parent = Supervisor({})
    monkeypatch.setattr(supervisor, "RESTART_PAUSES", (60.0,))
    monkeypatch.setattr(supervisor, "say", lambda _: parent.stop(signal.SIGTERM))
    assert list(run_child(monkeypatch, KILLS_ITSELF, parent=parent).lines) == ["hello"]
