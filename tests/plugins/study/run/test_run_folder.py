"""How far a run is, and whether what it left is whole enough to go on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from swarm.plugins.study.run.run_folder import can_go_on, is_finished, read_progress
from swarm.records.reader import RunReader, snapshot
from tests.layout import Layout
from tests.unit.views.factories import append_events, make_event, make_experiment, make_round, reward_of, run_of


def make_saved(path: Path) -> Layout:
    """A finished run whose nodes have saved its three rounds."""
    layout = make_experiment(path)
    layout.checkpoint(3, "bob").mkdir()
    return layout


def test_the_cumulative_reward_is_the_sum_over_nodes_and_rounds(tmp_path: Path) -> None:
    progress = read_progress(RunReader(run_of(make_saved(tmp_path))))
    assert progress.cumulative_reward == pytest.approx(2 * sum(map(reward_of, range(3))))
    assert progress.reward == pytest.approx(reward_of(2))
    assert progress.rounds_done == 3


def test_a_killed_run_goes_on_unless_a_node_lost_updates(tmp_path: Path) -> None:
    layout = make_saved(tmp_path)
    make_round(layout, "alice", 3)  # more than she saved, and than bob did
    layout.state_file.write_text('{"round": 3')
    assert can_go_on(run_of(layout))
    append_events(layout, "bob", {**make_event("rounds.lost", 3.0), "count": 2})
    assert not can_go_on(run_of(layout))
    assert read_progress(RunReader(run_of(layout))).rounds_lost == 2
    never = run_of(Layout(tmp_path, "none"))
    assert can_go_on(never), "a run that never began can begin"
    progress = read_progress(RunReader(never))
    assert (progress.rounds_done, progress.reward, progress.cumulative_reward) == (0, None, 0.0)


def test_a_run_that_lost_updates_is_over_but_not_finished(tmp_path: Path) -> None:
    layout = make_saved(tmp_path)
    append_events(layout, "alice", {**make_event("rounds.lost", 3.0), "count": 1})
    progress = read_progress(RunReader(run_of(layout)))
    assert (progress.is_over(3), progress.is_finished(3), is_finished(run_of(layout), 3)) == (True, False, False)


def test_a_run_is_saved_when_every_node_has_a_checkpoint_of_its_last_round(tmp_path: Path) -> None:
    layout = make_saved(tmp_path)
    assert snapshot(run_of(layout)).is_saved
    shutil.rmtree(layout.checkpoint(3, "bob"))
    assert not snapshot(run_of(layout)).is_saved, "a kill came between its last round and its last checkpoint"
    layout.checkpoint(2, "bob").mkdir(parents=True)
    assert not snapshot(run_of(layout)).is_saved
    shutil.rmtree(layout.checkpoints)
    assert snapshot(run_of(layout)).is_saved, "somebody has cleaned up"
