"""Whether a run is over, with a coordinator, without one, or after it died: one answer, whoever asks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from swarm.cli.main import run as swarm
from swarm.cli.up import _refuse_what_cannot_go_on
from swarm.config import Settings
from swarm.errors import ExperimentError
from swarm.records.events import Ending
from swarm.records.finished import BY_COORDINATOR, BY_WORKERS, Finished, finished, rounds_done
from swarm.records.reader import snapshot
from swarm.views.status import StatusReader, render
from swarm.views.validate import validate
from swarm.wire.messages import ExperimentFile
from tests.layout import Layout
from tests.unit.views.factories import (
    START,
    add_row,
    append_events,
    make_event,
    make_experiment,
    make_peer,
    make_round,
    make_state,
    print_to,
    run_of,
    write,
)

ROUNDS = 3


def make_ended(layout: Layout, *nodes: str, **fields: Any) -> None:
    end = {"reason": "finished", "rounds_done": ROUNDS} | fields
    for node in nodes or ("alice", "bob"):
        append_events(layout, node, make_event("node.finished", START + 50, **end))


def make_own_clocks(path: Path, *, ended: bool = True) -> Layout:
    """Two workers that went through their rounds without a coordinator."""
    layout = make_experiment(path, rounds=ROUNDS)
    layout.state_file.unlink()
    layout.peer_file("clock").unlink()
    say_clock(layout, "own")
    if ended:
        make_ended(layout)
    return layout


def say_clock(layout: Layout, clock: str) -> None:
    identity = {"clock": clock, "empty_update": "step"}
    made = ExperimentFile(experiment_name="exp", created_at=START, created_by="alice", identity=identity)
    write(layout.experiment_file, made)


def make_abandoned(path: Path) -> Layout:
    """A run whose coordinator died in round 1; its workers went on."""
    layout = make_experiment(path, rounds=2)
    write(layout.state_file, make_state(layout, round=1, max_rounds=ROUNDS))
    for node in ("alice", "bob"):
        before = layout.metrics_file(node).read_bytes()
        make_round(layout, node, 2)
        layout.metrics_file(node).write_bytes(before)
        add_row(layout, node, 2, clock="own")
    make_ended(layout)
    return layout


def with_coordinator(path: Path) -> Layout:
    layout = make_experiment(path, rounds=ROUNDS)
    make_ended(layout, "alice")
    make_ended(layout, "bob", rounds_done=ROUNDS - 1)  # it was late for the last round
    return layout


def going_on(path: Path) -> Layout:
    layout = make_experiment(path, rounds=ROUNDS)
    write(layout.state_file, make_state(layout, round=ROUNDS, max_rounds=9))
    return layout


def stopped(path: Path) -> Layout:
    layout = going_on(path)
    make_ended(layout, reason="stopped")
    return layout


def killed(path: Path) -> Layout:
    layout = going_on(path)
    for node in ("alice", "bob"):
        make_peer(layout, node, status="active", last_seen=START)
    return layout


def going_on_alone(path: Path) -> Layout:
    layout = make_own_clocks(path, ended=False)
    make_ended(layout, "alice")
    return layout


def stopped_alone(path: Path) -> Layout:
    layout = make_own_clocks(path, ended=False)
    make_ended(layout, reason="stopped")
    return layout


def begun_again(path: Path) -> Layout:
    """A finished run on own clocks of which one worker goes on."""
    layout = make_own_clocks(path)
    append_events(layout, "bob", make_event("node.starting", START + 60))
    make_round(layout, "bob", ROUNDS)
    return layout


OVER: dict[Callable[[Path], Layout], str] = {
    with_coordinator: BY_COORDINATOR,
    make_own_clocks: BY_WORKERS,
    make_abandoned: BY_WORKERS,
    going_on: "",
    stopped: "",
    killed: "",
    going_on_alone: "",
    stopped_alone: "",
    begun_again: "",
}


def with_checkpoints(layout: Layout) -> Layout:
    for node in ("alice", "bob"):
        layout.checkpoint(ROUNDS, node).mkdir(parents=True, exist_ok=True)
    return layout


@pytest.mark.parametrize("make", OVER, ids=lambda make: make.__name__)
def test_all_agree_whether_a_run_is_finished(
    tmp_path: Path, make: Callable[[Path], Layout], capsys: pytest.CaptureFixture[str]
) -> None:
    layout, over = with_checkpoints(make(tmp_path)), OVER[make]
    run, asked = run_of(layout), ("--path", str(tmp_path), "--experiment", "exp")

    def said(*command: str) -> str:
        swarm(command)
        return capsys.readouterr().out

    status = json.loads(said("status", "--json", *asked))
    checks = {check["name"]: check["ok"] for check in json.loads(said("validate", "--json", *asked))["checks"]}
    listed = said("experiment", "list", "--path", str(tmp_path)).splitlines()[1].split()
    assert status["finished"] is bool(over)
    assert status["finished_by"] == over
    assert checks["state is final"] is bool(over)
    assert listed[2] == ("yes" if over else "no")
    if over:
        assert status["round"] == status["max_rounds"] == json.loads(said("summary", "--json", *asked))["rounds"]
        with pytest.raises(ExperimentError, match=f"finished after {ROUNDS} rounds"):
            _refuse_what_cannot_go_on(settings_of(layout, ROUNDS), run)
    else:
        _refuse_what_cannot_go_on(settings_of(layout, ROUNDS), run)


def test_a_finished_experiment_whose_last_weights_a_kill_took_may_go_on_to_save_them(tmp_path: Path) -> None:
    layout = with_checkpoints(make_own_clocks(tmp_path))
    with pytest.raises(ExperimentError, match=f"finished after {ROUNDS} rounds"):
        _refuse_what_cannot_go_on(settings_of(layout, ROUNDS), run_of(layout))
    layout.checkpoint(ROUNDS, "bob").rmdir()
    _refuse_what_cannot_go_on(settings_of(layout, ROUNDS), run_of(layout))


def settings_of(layout: Layout, rounds: int) -> Settings:
    """Those of a `swarm up` that would go on with the run."""
    own = layout.experiment_file.exists()
    if not own:
        say_clock(layout, "coordinator")
    return Settings(path=str(layout.path), experiment="exp", max_rounds=rounds, clock="own" if own else "coordinator")


ENDED, CUT = Ending("finished", 7), Ending("stopped", 7)


@pytest.mark.parametrize(
    ("of_workers", "verdict"),
    [
        ([ENDED, ENDED], Finished(7, BY_WORKERS)),
        ([ENDED, Ending("finished", 8)], None),
        ([ENDED, CUT], None),
        ([ENDED, None], None),
        ([Ending("crashed")], None),
        ([Ending("finished", None)], None),
        ([], None),
    ],
)
def test_without_a_clock_all_workers_must_have_ended_after_the_same_number_of_rounds(
    of_workers: list[Ending | None], verdict: Finished | None
) -> None:
    assert finished(None, of_workers) == verdict


def test_rounds_done_are_those_of_the_clock_and_of_who_went_further_without_it(tmp_path: Path) -> None:
    state = make_state(Layout(tmp_path, "exp"), round=4)
    assert rounds_done(state, [0, 0], [9, 9]) == 4, "a worker may be ahead of the clock by the round it has just done"
    assert rounds_done(state, [0, 6], [6, 6]) == 6
    assert rounds_done(None, [0, 0], [3, 5]) == 5
    assert rounds_done(None, [], []) == 0


def test_how_a_node_ended_is_that_of_its_last_life(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path)
    crash = make_event("process.crashed", START + 9, "critical", error="boom")
    append_events(layout, "alice", crash, make_event("node.starting", START + 10))
    append_events(layout, "bob", make_event("node.finished", START, reason="finished", rounds_done=3), crash)
    append_events(layout, "clock", crash)
    events = snapshot(run_of(layout)).events
    assert events["alice"].ending is None
    assert events["bob"].ending == Ending("finished", 3), "it was done before its process crashed"
    assert events["clock"].ending == Ending("crashed", error="boom")


def problems(layout: Layout, **more: Any) -> list[str]:
    return [problem for check in validate(run_of(layout), **more).checks for problem in check.problems]


def test_a_run_on_own_clocks_has_not_finished_until_every_worker_has(tmp_path: Path) -> None:
    layout = make_own_clocks(tmp_path, ended=False)
    make_ended(layout, "alice")
    (problem,) = problems(layout)
    assert "bob" in problem
    assert f"expected node.finished after {ROUNDS} rounds, got none" in problem
    assert problems(layout, partial=True) == []
    make_ended(layout, "bob", rounds_done=2)
    (problem,) = problems(layout)
    assert "got it after 2" in problem


def test_a_run_on_own_clocks_is_whole_without_a_state_file_and_with_a_round_that_some_did_alone(tmp_path: Path) -> None:
    layout = make_own_clocks(tmp_path)
    assert problems(layout) == []
    make_peer(layout, "carol")
    append_events(layout, "carol", make_event("node.started", START))
    print_to(layout, "carol", "hello")
    make_round(layout, "carol", 0)
    make_ended(layout, "carol")
    assert problems(layout) == []


def test_a_run_whose_coordinator_died_is_whole_once_its_workers_have_finished_and_not_before(tmp_path: Path) -> None:
    layout = make_abandoned(tmp_path)
    assert problems(layout) == []
    append_events(layout, "bob", make_event("node.starting", START + 60))
    (problem,) = problems(layout)
    assert "expected finished" in problem
    assert problems(layout, partial=True) == []


def test_the_status_says_that_each_node_keeps_its_own_clock(tmp_path: Path) -> None:
    layout = make_own_clocks(tmp_path)
    make_peer(layout, "alice", round=3)
    make_peer(layout, "bob", round=5)
    make_peer(layout, "long-gone", round=1, last_seen=START)
    reader = StatusReader(run_of(layout), liveness_timeout=20.0)
    assert "each node keeps its own clock; in rounds 3 to 5" in render(reader.read(START + 101))
    assert "nobody is alive, the last ones were in rounds 1 to 5" in render(reader.read(START + 1000))
