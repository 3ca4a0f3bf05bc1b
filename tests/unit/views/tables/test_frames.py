"""The public frames: their columns, and what they make of folders in every state."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from swarm.errors import ConfigError
from swarm.types import RoundKey
from swarm.views.tables.frames import (
    TABLES,
    experiment_frame,
    get_events,
    get_experiment_metrics,
    get_judge_metrics,
    get_rewards,
    get_rollout_files,
    get_rollouts,
)
from tests.unit.views.factories import append, append_events, make_event, make_rollouts, write
from tests.unit.views.tables.small_study import FULL, SMALL, empty_run, full_run

pytest.importorskip("pandas")


@pytest.mark.parametrize("table", TABLES)
def test_columns_and_dtypes_are_the_same_with_rows_and_without(tmp_path: Path, table: str) -> None:
    young = experiment_frame(tmp_path, empty_run(tmp_path).experiment, TABLES[table])
    grown = experiment_frame(SMALL, FULL, TABLES[table])
    assert len(young) == 0 < len(grown)
    assert dict(young.dtypes) == dict(grown.dtypes)
    assert {name: str(dtype) for name, dtype in grown.dtypes.items()} == TABLES[table].columns


def test_there_is_one_row_per_node_and_round_in_order() -> None:
    metrics = get_experiment_metrics(SMALL, FULL)
    keys = list(zip(metrics["round"], metrics["node_id"], strict=True))
    assert keys == [(number, f"worker-{node}") for number in range(6) for node in range(3)]


def test_dicts_and_lists_stay_what_they_are() -> None:
    row = get_experiment_metrics(SMALL, FULL).iloc[0]
    assert row["external_by_peer"] == {"worker-1": 1, "worker-2": 1}
    assert row["publish_to_pool"] == [0.25, 0.5]


def test_a_row_belongs_to_the_folder_it_lies_in_whatever_it_says(tmp_path: Path) -> None:
    layout = full_run(tmp_path)
    layout.metrics_file("worker-2").parent.rename(layout.logs / "carol")
    layout.root.rename(tmp_path / "experiments" / "copy")
    metrics = get_experiment_metrics(tmp_path, "copy")
    assert set(metrics["node_id"]) == {"worker-0", "worker-1", "carol"}
    assert set(metrics["experiment"]) == {"copy"}


def test_events_are_those_of_all_nodes_by_time(tmp_path: Path) -> None:
    layout = full_run(tmp_path)
    append_events(layout, "coordinator", make_event("round.opened", 1_700_000_003.0, "debug", round=1, reason="all"))
    append_events(layout, "coordinator", make_event("coordinator.started", 1.0), make_event("odd", 2.0, round="two"))
    append(layout.events_file("coordinator"), b"[]")
    append(layout.events_file("coordinator"), b'{"event": "without.time"}')
    events = get_events(tmp_path, FULL)
    assert len(events) == 18 + 3
    assert events["timestamp"].is_monotonic_increasing
    assert events["event"].tolist()[:3] == ["coordinator.started", "odd", "round.completed"]
    opened = events[events["event"] == "round.opened"].iloc[0]
    assert (opened["node_id"], opened["level"], opened["round"]) == ("coordinator", "debug", 1)
    assert opened["fields"] == {"reason": "all", "logger": "swarm.node"}
    assert events["round"].isna().tolist()[:3] == [True, True, False]


def test_rollouts_have_one_row_per_completion() -> None:
    rollouts = get_rollouts(SMALL, FULL)
    assert len(rollouts) == 6 * 3 * 2 * 2
    first = rollouts.iloc[0]
    names = ["round", "peer_id", "slot", "completion", "task", "response", "claimed_reward", "finished", "answer"]
    expected = [0, "worker-0", 0, 0, "basic_arithmetic", "<answer>2</answer>", 8 / 64, True, "2"]
    assert first[names].tolist() == expected


def test_rollout_files_of_strangers_are_read_as_far_as_they_make_sense(tmp_path: Path) -> None:
    layout, key = full_run(tmp_path), RoundKey(6)
    bare = make_rollouts("bare", key, groups={})
    entries = bare.rollouts["0"]
    bare.rollouts |= {"10": entries, "9": entries[:1], "x": entries, "9" * 30: entries}
    write(layout.rollout_file(key, "bare"), bare)
    write(layout.rollout_file(key, "liar"), make_rollouts("worker-0", key))
    write(layout.rollout_file(key, "late"), make_rollouts("late", RoundKey(5)))
    layout.rollout_file(key, "torn").write_bytes(b'{"peer_id": "torn"')
    rollouts = get_rollouts(tmp_path, FULL, rounds=[6])
    assert rollouts["peer_id"].unique().tolist() == ["bare"]
    assert rollouts["slot"].tolist() == [0, 0, 9, 10, 10]
    assert rollouts["task"].unique().tolist() == [""]


def test_submitted_rewards_are_those_of_the_metrics(tmp_path: Path) -> None:
    layout = full_run(tmp_path)
    layout.reward_file(RoundKey(0), "torn").write_bytes(b"{")
    rewards = get_rewards(tmp_path, FULL).set_index(["round", "peer_id"])["reward"]
    metrics = get_experiment_metrics(tmp_path, FULL).set_index(["round", "node_id"])["my_reward"]
    assert rewards.to_dict() == metrics.to_dict()


def test_a_question_that_was_judged_twice_counts_once(tmp_path: Path) -> None:
    layout = full_run(tmp_path)
    lines = layout.judge_file.read_bytes().splitlines()
    again = msgspec.json.encode(msgspec.json.decode(lines[0]) | {"reward": 0.5})
    append(layout.judge_file, again)
    judged = get_judge_metrics(tmp_path, FULL)
    assert len(judged) == len(lines) == 18
    assert judged["reward"].tolist()[:2] == [0.5, 0.0]
    assert list(judged.columns) == [
        *("round", "node_id", "task", "profile", "question_id", "reward", "full_answer", "answered", "timestamp")
    ]


def test_without_pandas_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match=r"pip install .*pandas"):
        get_experiment_metrics(SMALL, FULL)


def test_rollout_files_are_counted_by_round_stage_and_node(tmp_path: Path) -> None:
    layout = empty_run(tmp_path)
    for number, name, size in ((2, "ann.json", 3), (10, "ann.json", 4), (10, "ben.json", 5), (10, "notes.txt", 9)):
        file = layout.rollouts / f"round_{number}" / "stage_0" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * size)
    found = get_rollout_files(tmp_path, "young")
    rows = found[["round", "peer_id", "files", "bytes"]].values.tolist()
    assert rows == [[2, "ann", 1, 3], [10, "ann", 1, 4], [10, "ben", 1, 5]]
