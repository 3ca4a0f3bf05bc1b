"""Whether a run is over: one answer, whoever asks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from swarm.cli.main import run as swarm
from swarm.cli.up import _refuse_what_cannot_go_on
from swarm.config import Settings
from swarm.errors import ExperimentError
from swarm.records.events import Ending
from swarm.records.finished import BY_COORDINATOR, BY_WORKERS, Finished, finished, rounds_done
from swarm.records.reader import snapshot
from swarm.wire.messages import ExperimentFile
from tests.layout import Layout
from tests.unit.views.factories import (
    append_events,
    make_event,
    make_experiment,
    make_peer,
    make_round,
    make_state,
    run_of,
    write,
)
from tests.unit.views.test_own_clocks import ROUNDS, START, make_abandoned, make_ended, make_own_clocks


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
    for node in ("alice", "bob"):
        make_ended(layout, node, reason="stopped")
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
    for node in ("alice", "bob"):
        make_ended(layout, node, reason="stopped")
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


@pytest.mark.parametrize("make", OVER, ids=lambda make: make.__name__)
def test_all_agree_whether_a_run_is_finished(
    tmp_path: Path, make: Callable[[Path], Layout], capsys: pytest.CaptureFixture[str]
) -> None:
    layout, over = make(tmp_path), OVER[make]
    for node in ("alice", "bob"):
        layout.checkpoint(ROUNDS, node).mkdir(parents=True, exist_ok=True)
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
    layout = make_own_clocks(tmp_path)
    for node in ("alice", "bob"):
        layout.checkpoint(ROUNDS, node).mkdir(parents=True, exist_ok=True)
    with pytest.raises(ExperimentError, match=f"finished after {ROUNDS} rounds"):
        _refuse_what_cannot_go_on(settings_of(layout, ROUNDS), run_of(layout))
    layout.checkpoint(ROUNDS, "bob").rmdir()
    _refuse_what_cannot_go_on(settings_of(layout, ROUNDS), run_of(layout))


def settings_of(layout: Layout, rounds: int) -> Settings:
    """Those of a `swarm up` that would go on with the run."""
    own = layout.experiment_file.exists()
    if not own:
        identity = {"clock": "coordinator", "empty_update": "step"}
        made = ExperimentFile(experiment_name="exp", created_at=START, created_by="clock", identity=identity)
        write(layout.experiment_file, made)
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
