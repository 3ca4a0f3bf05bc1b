"""`swarm study` on a terminal: what it accepts, shows and sums up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from swarm.cli.main import run
from swarm.errors import ConfigError
from swarm.plugins.study.cli import study
from swarm.plugins.study.cli.study import seeds_of
from swarm.plugins.study.cli.study_view import StudyDisplay, headline, results
from swarm.plugins.study.record import StudyRecord
from swarm.plugins.study.run.run_folder import RunProgress
from swarm.plugins.study.run.runner import RunView, StudyView
from swarm.plugins.study.run.schedule import RunState
from tests.fake_hub import FakeHub
from tests.plugins.study.study_files import record_file, study_record
from tests.unit.cli.test_before_start import BAD, hub  # noqa: F401 - a fixture
from tests.unit.test_architecture import HEAVY
from tests.unit.views.factories import make_experiment, write


def make_record() -> StudyRecord:
    return study_record("8/0", "4/4", study="s", title="S", seeds=(1, 2))


def make_view(*runs: tuple[RunState, int, float], seconds_left: float | None = 90.0) -> StudyView:
    """Runs as (state, rounds done, cumulative reward), in the order of the record."""
    record = make_record()
    views = tuple(
        RunView(run, state, RunProgress(done, reward / 10, reward), problem="exit code 1" if state == "failed" else "")
        for run, (state, done, reward) in zip(record.runs, runs, strict=True)
    )
    return StudyView(record, views, seconds_left)


HALF = make_view(
    (RunState.FINISHED, 3, 2.0), (RunState.RUNNING, 1, 1.0), (RunState.FAILED, 2, 9.0), (RunState.WAITING, 0, 0.0)
)
DONE = make_view(*[(RunState.FINISHED, 3, reward) for reward in (2.0, 3.0, 4.0, 6.0)], seconds_left=0.0)


@pytest.mark.parametrize(
    ("text", "seeds"), [("3", (1, 2, 3)), ("1,5, 9", (1, 5, 9)), ("7,", (7,)), ("0", ()), ("0,1", (0, 1))]
)
def test_seeds_are_a_list_or_a_number_of_them(text: str, seeds: tuple[int, ...]) -> None:
    assert seeds_of(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "1;2", "-1", "1.5", ","])
def test_other_seeds_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--seeds must be whole numbers"):
        seeds_of(text)


def test_the_headline_says_how_far_it_is_and_how_long_it_takes() -> None:
    assert headline(HALF) == "s  1/4 runs  50%  ETA 90s  1 failed"
    assert headline(make_view(*[(RunState.WAITING, 0, 0.0)] * 4, seconds_left=None)) == "s  0/4 runs  0%  ETA -"


def test_results_are_means_of_finished_runs_against_their_baseline() -> None:
    rows = [line.split() for line in results(DONE).splitlines()]
    assert rows[1:] == [["8/0", "2", "3.00", "-"], ["4/4", "2", "4.50", "+50.0%", "of", "8/0"]]
    assert [line.split() for line in results(HALF).splitlines()][1:] == [
        ["8/0", "1", "2.00", "-"],
        ["4/4", "0", "-", "-"],
    ]


def test_unequal_budgets_are_said_below_the_results() -> None:
    record = make_record()
    bigger = msgspec.structs.replace(record.configurations[1], settings={"local_groups": 8, "external_groups": 8})
    unequal = msgspec.structs.replace(record, configurations=(record.configurations[0], bigger))
    last = results(StudyView(unequal, DONE.runs, None)).splitlines()[-1]
    assert last == "4/4 trains on 16 groups a round, 8/0 on 8: 2 times as many"
    assert "trains on" not in results(DONE)


def test_a_line_is_said_now_and_then_and_every_end(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    display = StudyDisplay(lambda: now)
    display.show(HALF)
    display.show(HALF)
    assert capsys.readouterr().out.splitlines() == [
        "s 1/4 runs 50% ETA 90s 1 failed; 4/4 seed 1 1 rounds done reward 0.100"
    ]
    now = 61.0
    display.show(HALF)
    assert len(capsys.readouterr().out.splitlines()) == 1
    display.show(DONE)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "s-4-4-s1 finished, cumulative reward 3.00"


def test_a_study_lists_how_far_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["study", "list", "--path", str(tmp_path)]) == 0
    assert "no study in" in capsys.readouterr().out
    write(record_file(tmp_path, "s"), make_record())
    make_experiment(tmp_path, name="s-8-0-s1", rounds=3)
    assert run(["study", "list", "--path", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:4] == ["s", "4", "1", "25%"]


def test_looking_at_studies_imports_nothing_heavy(tmp_path: Path) -> None:
    write(record_file(tmp_path, "s"), make_record())
    code = (
        "import sys, swarm.plugins.study; from swarm.cli.main import run;"
        f"code = run(['study', 'list', '--path', {str(tmp_path)!r}]); found = {{*{HEAVY!r}}} & {{*sys.modules}};"
        "sys.exit(str(found) if found else code)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_study_that_cannot_start_is_refused_once_with_its_cause(
    hub: FakeHub,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    variable, value, cause = BAD["a hub id with a slip"]
    monkeypatch.setattr(study, "run_all", None)
    monkeypatch.setenv(variable, value)
    assert run(["study", "run", "sapo", "--seeds", "3", "--path", str(tmp_path / "place")]) == 1
    assert capsys.readouterr().err.count(cause) == 1
    assert not list(tmp_path.iterdir())
