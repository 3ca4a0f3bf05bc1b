"""Runs without a coordinator, and runs whose coordinator died, as readers of their folders see them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from swarm.views.status import StatusReader, render
from swarm.views.validate import validate
from swarm.wire.messages import ExperimentFile
from tests.layout import Layout
from tests.unit.views.factories import (
    START,
    append_events,
    make_event,
    make_experiment,
    make_peer,
    make_round,
    make_row,
    make_state,
    print_to,
    run_of,
    write,
)

ROUNDS = 3


def make_ended(layout: Layout, node: str, **fields: Any) -> None:
    end = {"reason": "finished", "rounds_done": ROUNDS} | fields
    append_events(layout, node, make_event("node.finished", START + 50, **end))


def make_own_clocks(path: Path, *, ended: bool = True) -> Layout:
    """Two workers that went through their rounds without a coordinator."""
    layout = make_experiment(path, rounds=ROUNDS)
    layout.state_file.unlink()
    layout.peer_file("clock").unlink()
    identity = {"clock": "own", "empty_update": "step"}
    write(
        layout.experiment_file,
        ExperimentFile(experiment_name="exp", created_at=START, created_by="alice", identity=identity, versions={}),
    )
    for node in ("alice", "bob"):
        if ended:
            make_ended(layout, node)
    return layout


def make_abandoned(path: Path) -> Layout:
    """A run whose coordinator died in round 1; its workers went on."""
    layout = make_experiment(path, rounds=2)
    write(layout.state_file, make_state(layout, round=1, max_rounds=ROUNDS))
    for node in ("alice", "bob"):
        row = make_round(layout, node, 2)
        lines = layout.metrics_file(node).read_bytes().splitlines(keepends=True)
        layout.metrics_file(node).write_bytes(b"".join(lines[:2]) + own(layout, node, row.round))
        make_ended(layout, node)
    return layout


def own(layout: Layout, node: str, number: int) -> bytes:
    return msgspec.json.encode(make_row(layout, node, number, clock="own")) + b"\n"


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
