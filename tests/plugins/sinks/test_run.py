"""`swarm sink run`, until a run is over or once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from swarm.cli.main import run
from swarm.cli.processes import EndRequest
from swarm.plugins.sinks import run as module
from swarm.plugins.sinks.base import SinkRun
from swarm.plugins.sinks.run import GRACE, LONGEST_PAUSE
from swarm.wire.messages import ExperimentFile
from tests.layout import Layout
from tests.plugins.sinks.test_feed import Memory
from tests.unit.views.factories import make_experiment, make_round, set_clock, write


class Days:
    """A clock that goes on by waiting alone, sinks that fail, and what happens at each look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.sink = Memory()
        self.failures: list[Exception] = []
        self.pauses: list[float] = []
        self.then: Iterator[object] = iter(())
        self.asked = EndRequest()
        monkeypatch.setattr(module, "time", self)
        monkeypatch.setattr(module, "open_sink", self._open)
        monkeypatch.setattr(module, "refuse_kinds", lambda *_: None)
        monkeypatch.setattr(EndRequest, "wait", self._wait)

    def monotonic(self) -> float:
        return self.now

    def _wait(self, seconds: float) -> None:
        self.now += seconds
        self.pauses.append(seconds)
        next(self.then, None)

    def _open(self, kind: str, of: SinkRun) -> Memory:
        if self.failures:
            raise self.failures.pop(0)
        return self.sink


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = make_experiment(tmp_path / "here", rounds=3)
    write(layout.experiment_file, ExperimentFile(experiment_name="exp", created_at=1.7e9, created_by="c", identity={}))
    return layout


@pytest.fixture
def days(monkeypatch: pytest.MonkeyPatch) -> Days:
    return Days(monkeypatch)


def sink(layout: Layout, *how: str, folder: Path | None = None) -> int:
    where = ["--path", str(layout.path), "--experiment", layout.experiment]
    return run(["sink", "run", "tensorboard", *where, "--folder", str(folder or layout.path.parent / "sinks"), *how])


def test_a_run_is_followed_until_it_has_been_over_for_a_while(layout: Layout, days: Days) -> None:
    set_clock(layout, 3, max_rounds=5, finished=False)

    def live() -> Iterator[None]:
        make_round(layout, "alice", 3)
        yield
        set_clock(layout, 4, max_rounds=4, finished=True)
        yield
        make_round(layout, "bob", 3)  # who was the last to write

    days.then = live()
    assert sink(layout) == 0
    assert days.sink.rounds("alice") == days.sink.rounds("bob") == [0, 1, 2, 3]
    assert days.now >= GRACE


def test_a_sink_that_fails_is_said_opened_again_and_nothing_is_doubled(
    layout: Layout, days: Days, capsys: pytest.CaptureFixture[str]
) -> None:
    days.failures = [OSError("disk full")] * 9
    assert sink(layout) == 0
    assert days.sink.rounds("alice") == [0, 1, 2]
    assert days.pauses[:7] == [2, 4, 8, 16, 32, 64, LONGEST_PAUSE]
    said = capsys.readouterr().err
    assert "tensorboard takes no rows: OSError: disk full; the run goes on" in said
    assert "[SWARM-SINK]" in said


def test_a_row_that_is_refused_halfway_comes_again(layout: Layout, days: Days, monkeypatch: pytest.MonkeyPatch) -> None:
    flush, failing = days.sink.flush, iter([ValueError("no")])

    def flush_or_not() -> None:
        for error in failing:
            days.sink.taken = []
            raise error
        flush()

    monkeypatch.setattr(days.sink, "flush", flush_or_not)
    assert sink(layout) == 0
    assert days.sink.rounds("alice") == [0, 1, 2]


def test_who_is_asked_to_end_hands_over_what_there_is_and_says_how_the_rest_would_come(
    layout: Layout, days: Days, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_clock(layout, 3, max_rounds=5, finished=False)
    monkeypatch.setattr(EndRequest, "is_set", lambda _: True)
    assert sink(layout) == 0
    assert days.sink.rounds("alice") == [0, 1, 2]
    days.failures = [OSError("disk full")]
    assert sink(layout) == 1
    assert "swarm sink run tensorboard --path" in capsys.readouterr().err


def test_a_run_that_has_not_said_what_it_is_is_waited_for(layout: Layout, days: Days) -> None:
    set_clock(layout, 3, max_rounds=5, finished=False)
    file = layout.experiment_file.read_bytes()
    layout.experiment_file.unlink()

    def live() -> Iterator[None]:
        assert days.sink.kept == []
        layout.experiment_file.write_bytes(file)
        yield
        set_clock(layout, 3, max_rounds=3, finished=True)

    days.then = live()
    assert sink(layout) == 0
    assert days.sink.rounds("alice") == [0, 1, 2]


def test_a_run_that_goes_on_is_handed_over_once_as_far_as_it_is_there(
    layout: Layout, days: Days, capsys: pytest.CaptureFixture[str]
) -> None:
    set_clock(layout, 3, max_rounds=5, finished=False)
    assert sink(layout, "--once") == 0
    assert "tensorboard has 6 more rows of exp" in capsys.readouterr().out
    assert sink(layout, "--once") == 0
    assert "tensorboard has 0 more rows of exp" in capsys.readouterr().out
    assert days.pauses == []


def test_the_place_is_not_written_to_and_takes_no_sink(
    layout: Layout, days: Days, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {file: file.stat().st_mtime_ns for file in layout.path.rglob("*")}
    assert sink(layout, "--once") == 0
    assert sink(layout, "--once", folder=layout.path / "sinks") == 2
    assert "is in the shared place" in capsys.readouterr().err
    assert {file: file.stat().st_mtime_ns for file in layout.path.rglob("*")} == before


def test_a_kind_that_there_is_not_or_whose_library_is_missing_is_refused(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--path", str(layout.path), "--experiment", "exp"]
    assert run(["sink", "run", "mlflow", *where]) == 2
    monkeypatch.setattr("swarm.plugins.sinks.opening.find_spec", lambda _: None)
    capsys.readouterr()
    assert run(["sink", "run", "wandb", *where]) == 2
    assert 'pip install "wandb' in capsys.readouterr().err
