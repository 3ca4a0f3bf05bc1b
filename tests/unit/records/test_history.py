"""The history of a run: what its rows say, however they came, and nothing of it read twice."""

from __future__ import annotations

import math
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm.records import history as histories
from swarm.records.history import COLUMNS, HistoryReader, HistoryRoom, NodeHistory
from tests.layout import Layout
from tests.unit.views.factories import add_row, make_experiment, run_of


def line(round_: int, **fields: Any) -> bytes:
    row = {"timestamp": 1.0 + round_, "round": round_, "stage": 0, "node_id": "a", "experiment": "e", "my_reward": 0.5}
    return msgspec.json.encode(row | fields)


def history_of(*lines: bytes, room: HistoryRoom | None = None, epoch: int = 1) -> NodeHistory:
    history = NodeHistory(room, epoch)
    for of_row in lines:
        history.observe([of_row])
    return history


def at(node: NodeHistory, name: str, round_: int, stage: int = 0) -> float:
    """One figure of a round and stage; NaN where there is none."""
    places = [*zip(node.rounds, node.stages, strict=True)]
    return node.figure(name, places.index((round_, stage))) if (round_, stage) in places else math.nan


def everything(node: NodeHistory) -> dict[str, Any]:
    """All that a history says, in a form that compares: NaN is not equal to itself."""
    columns = {name: [None if math.isnan(v) else v for v in node.column(name)] for name in COLUMNS}
    tasks = {name: repr(of) for name, of in node.tasks.items()}
    names = (
        *map(node.places_trained_on, ("ben/0/0/1", "cleo/0/0/2")),
        node.trained_on,
        node.last_trained_on,
        node.model,
        node.role,
        msgspec.structs.asdict(node.odd),
    )
    return {"places": [*zip(node.rounds, node.stages, strict=True)], "columns": columns, "tasks": tasks, "rest": names}


def test_a_figure_is_found_by_round_and_stage() -> None:
    history = history_of(line(0, executor_busy=0.25), line(1, my_reward=0.75), line(1, stage=1, my_reward=1.0))
    assert at(history, "my_reward", 1) == 0.75
    assert at(history, "my_reward", 1, 1) == 1.0
    assert at(history, "executor_busy", 0) == 0.25
    assert math.isnan(at(history, "my_reward", 2))
    assert [history.rounds[place] for place in history.one_per_round()] == [0, 1]
    assert history.column("my_reward")[history.one_per_round()[1]] == 1.0


def test_a_round_that_is_done_again_takes_the_place_of_what_it_was_and_is_new() -> None:
    history = history_of(line(0), line(1, task_rewards={"knots": 0.5}))
    seen = history.version
    assert history.since(seen) == []
    history.observe([line(1, my_reward=0.25, task_rewards={"sums": 1.0})])
    history.observe([line(2)])
    assert history.since(seen) == [1, 2]
    assert [*history.column("my_reward")] == [0.5, 0.25, 0.5]
    assert [*history.tasks["knots"].places] == []
    assert [*history.tasks["sums"].places] == [1]
    assert [*history.tasks["sums"].reward] == [1.0]


def test_rows_that_come_out_of_order_are_put_in_order() -> None:
    history = history_of(line(4), line(2), line(3))
    assert [history.rounds[place] for place in history.in_order()] == [2, 3, 4]
    assert history.rounds_done == 5
    assert history.last_place == 2


def test_the_reward_given_tagged_of_rows_that_lack_it_is_computed() -> None:
    history = history_of(line(0, my_reward=0.1, answer_tag_rate=0.4), line(1, my_reward=0.0))
    assert at(history, "reward_given_tagged", 0) == pytest.approx(0.25)
    assert math.isnan(at(history, "reward_given_tagged", 1))


def test_rewards_of_a_node_that_had_no_answers_of_its_own_measure_nothing() -> None:
    history = history_of(line(0, role="evaluator", my_reward=0.0), line(1, role="evaluator", local_groups=1))
    assert math.isnan(at(history, "my_reward", 0))
    assert at(history, "my_reward", 1) == 0.5
    assert history.role == "evaluator"


def test_names_and_rows_of_a_stranger_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "MOST_ROWS", 3)
    many = {f"name{i}": 1 for i in range(400)}
    named = line(0, task_rewards=many, external_by_peer=many, external_by_model=many)
    history = history_of(named, *map(line, range(1, 9)))
    assert len(history.tasks) == histories.MOST_TASKS
    assert len(history.trained_on) == histories.MOST_TRAINED_ON
    assert len(history.external_by_model) == histories.MOST_MODELS
    assert len(history) == 3
    assert (history.odd.cut, history.not_held) == (1, 6)
    history.observe([line(1, my_reward=1.0)])
    assert at(history, "my_reward", 1) == 1.0


def test_all_nodes_together_hold_no_more_rows_than_there_is_room_for() -> None:
    room = HistoryRoom(3, task_figures=2)
    found = [history_of(*(line(n, task_rewards={"knots": 0.5}) for n in range(2)), room=room) for _ in range(2)]
    assert [len(of_node) for of_node in found] == [2, 1]
    assert [of_node.odd.cut for of_node in found] == [0, 1]


def test_it_is_known_in_which_rounds_a_group_was_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    history = history_of(line(0, trained_on=["ben/0/0/1", "ben/0/0/2"]), line(1, trained_on=["ben/0/0/12"]))
    assert history.places_trained_on("ben/0/0/1") == [0]
    assert history.places_trained_on("ben/0/0/12") == [1]
    history.observe([line(0, trained_on=["ben/0/0/3"])])
    assert history.places_trained_on("ben/0/0/1") == []
    monkeypatch.setattr(histories, "MOST_OF_GROUPS", 40)
    history.observe([line(2, trained_on=["ben/1/0/1", "ben/1/0/2"])])
    assert history.places_trained_on("ben/0/0/3") == [0]
    assert history.places_trained_on("ben/1/0/2") == [], "no more are held"


rows = st.builds(
    line,
    st.integers(0, 6),
    stage=st.integers(0, 1),
    my_reward=st.sampled_from([0.0, 0.25, 1.0, 2.0]),
    answer_tag_rate=st.sampled_from([0.0, 0.5]),
    task_rewards=st.dictionaries(st.sampled_from(["knots", "sums"]), st.just(0.5)),
    external_by_peer=st.dictionaries(st.sampled_from(["ben", "cleo"]), st.integers(0, 3)),
    memory_allocated=st.integers(0, 9),
    trained_on=st.lists(st.sampled_from(["ben/0/0/1", "cleo/0/0/2"]), max_size=2),
)
lines = st.lists(rows | st.sampled_from([b"", b"junk", b'{"round": 1}']), max_size=12)


@given(lines, st.lists(st.integers(0, 3000), max_size=4))
@settings(deadline=None)
def test_however_the_file_grows_between_looks_the_history_is_the_same(of_file: list[bytes], cuts: list[int]) -> None:
    whole = b"".join(of_row + b"\n" for of_row in of_file)
    with tempfile.TemporaryDirectory() as folder:
        layout = Layout(Path(folder), "exp")
        reader = HistoryReader(run_of(layout))
        file = layout.metrics_file("anna")
        file.parent.mkdir(parents=True)
        for start, end in pairwise(sorted({0, *(min(cut, len(whole)) for cut in cuts), len(whole)})):
            with file.open("ab") as growing:
                growing.write(whole[start:end])
            reader.look()
        assert everything(reader.look()["anna"]) == everything(history_of(*of_file))


def test_a_file_that_was_replaced_begins_a_new_epoch(tmp_path: Path) -> None:
    layout = make_experiment(tmp_path, rounds=5)
    reader = HistoryReader(run_of(layout))
    before = reader.look()["alice"]
    layout.metrics_file("alice").unlink()
    add_row(layout, "alice", 0)
    after = reader.look()["alice"]
    assert len(after) == 1
    assert after.epoch > before.epoch
