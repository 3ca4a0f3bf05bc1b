"""No view of `swarm up` ends the nodes that it shows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from swarm.cli import progress as progress_module
from swarm.cli import up
from swarm.cli.progress import Surviving, UpProgress
from swarm.cli.supervisor import DaemonChild, Supervisor
from tests.unit.cli.swarms import swarm_of
from tests.unit.views.factories import add_row, make_experiment, make_state, run_of, write


def burst(*_: Any, **__: Any) -> None:
    raise OverflowError("intermediate overflow in fsum")


def test_a_failure_is_said_once_with_its_type_and_place(capsys: pytest.CaptureFixture[str]) -> None:
    surviving = Surviving()
    for _ in range(3):
        with surviving.view("progress"):
            burst()
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("progress failed, the nodes go on: OverflowError at test_surviving.py:")
    assert line.endswith("intermediate overflow in fsum")


@pytest.mark.parametrize("broken", ["round_line", "_new_rows"])
def test_progress_fails_without_ending_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], broken: str
) -> None:
    layout = make_experiment(tmp_path)
    monkeypatch.setattr(progress_module if broken == "round_line" else UpProgress, broken, burst)
    progress = UpProgress(run_of(layout), swarm_of())
    add_row(layout, "alice", 5)
    progress.show_new()
    assert capsys.readouterr().out.count("OverflowError") <= 1


@pytest.mark.parametrize(
    ("broken", "finished"),
    [*((view, True) for view in ("read_to_sum_up", "summary_of", "render", "snapshot")), ("render", False)],
)
def test_the_end_is_told_honestly_whatever_view_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], broken: str, finished: bool
) -> None:
    layout = make_experiment(tmp_path)
    write(layout.state_file, make_state(layout, round=3, max_rounds=3, finished=finished))
    monkeypatch.setattr(up, broken, burst)
    code = up._conclude(Supervisor({}), run_of(layout), 3, "swarm up", 0, Surviving())
    said = capsys.readouterr().out
    assert "OverflowError at test_surviving.py" in said
    known = finished and broken != "snapshot"
    assert code == (0 if known else 1)
    assert ("go on with more rounds" in said.splitlines()[-1]) == known


def test_a_view_that_fails_while_the_swarm_runs_leaves_its_children_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child is a process that ends by itself, with the code that is the swarm's."""
    layout = make_experiment(tmp_path)
    monkeypatch.setattr(UpProgress, "_show_new", burst)
    monkeypatch.setattr("swarm.cli.progress.REFRESH_SECONDS", 0.001)
    monkeypatch.setattr(up, "can_fork", lambda _: False)
    lived = tmp_path / "lived"
    script = f"import time; time.sleep(0.2); open({str(lived)!r}, 'w').close()"
    monkeypatch.setattr("swarm.cli.supervisor.module_command", lambda *_: [os.sys.executable, "-c", script])  # type: ignore[attr-defined]
    children = [DaemonChild("worker-0", "worker", {})]
    assert anyio.run(up._run, swarm_of(max_rounds=3, path=str(tmp_path)), run_of(layout), children, [], "again") == 0
    assert lived.exists()
