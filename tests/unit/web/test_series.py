"""Columns for a browser: all of them once, and then what is new, which together are what is there."""

from __future__ import annotations

import math
from base64 import b64decode
from struct import unpack
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from swarm.records.history import NodeHistory
from swarm.web import series
from swarm.web.look import matrix
from swarm.web.series import DRAWN, mark_of, news, whole
from swarm.web.tasks import tasks_of
from tests.unit.records.test_history import history_of as a_node
from tests.unit.records.test_history import line as a_row


def floats(text: str) -> list[float | None]:
    raw = b64decode(text)
    values = unpack(f"<{len(raw) // 4}f", raw)
    return [None if math.isnan(value) else value for value in values]


def rounds_of(document: dict[str, Any], node: str) -> list[int]:
    raw = b64decode(document["nodes"][node]["rounds"])
    return [*unpack(f"<{len(raw) // 4}i", raw)]


def test_a_column_is_told_whole_with_gaps_where_nothing_is_known() -> None:
    found = whole({"anna": a_node(a_row(0), a_row(2, answer_tag_rate=0.5))}, ["my_reward", "reward_given_tagged"])
    assert rounds_of(found, "anna") == [0, 2]
    assert floats(found["nodes"]["anna"]["columns"]["my_reward"]) == [0.5, 0.5]
    assert floats(found["nodes"]["anna"]["columns"]["reward_given_tagged"]) == [None, 1.0]


def test_of_a_round_of_two_stages_the_last_is_drawn_and_both_are_earned() -> None:
    found = whole({"anna": a_node(a_row(0), a_row(0, stage=1, my_reward=0.25), a_row(1))}, ["my_reward", "earned"])
    assert floats(found["nodes"]["anna"]["columns"]["my_reward"]) == [0.25, 0.5]
    assert floats(found["nodes"]["anna"]["columns"]["earned"]) == [0.75, 0.5]


def test_what_is_new_is_told_once() -> None:
    history = {"anna": a_node(a_row(0))}
    seen = mark_of(history)
    assert news(history, seen) == {"nodes": {}, "again": []}
    history["anna"].observe([a_row(1, my_reward=0.75)])
    told = news(history, seen)["nodes"]["anna"]
    assert told["rounds"] == [1]
    assert told["columns"]["my_reward"] == [0.75]
    assert told["columns"]["reward_given_tagged"] == [None]
    assert told["columns"].keys() == {*DRAWN}
    assert news(history, mark_of(history))["nodes"] == {}


def test_a_node_that_joined_is_new_and_one_with_another_file_or_very_many_rows_is_asked_for_again() -> None:
    history = {"anna": a_node(a_row(0), epoch=2), "ben": a_node(a_row(0))}
    told = news(history, {"anna": (1, 0)})
    assert (told["again"], [*told["nodes"]]) == (["anna"], ["ben"])
    away = {"anna": a_node(*map(a_row, range(series.MOST_NEW + 1)))}
    assert news(away, {}) == {"nodes": {}, "again": ["anna"]}


def test_of_very_many_nodes_those_with_the_most_rows_are_told() -> None:
    history = {f"n{place}": a_node(a_row(0)) for place in range(series.MOST_NODES + 3)} | {
        "long": a_node(a_row(0), a_row(1))
    }
    found = whole(history, ["my_reward"])
    assert len(found["nodes"]) == series.MOST_NODES
    assert "long" in found["nodes"]
    assert found["left_out"] == 4


rows = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1), st.sampled_from([0.0, 0.25, 1.0])), max_size=14)


@given(rows, st.lists(st.integers(0, 14), max_size=4))
@settings(deadline=None)
def test_the_whole_and_then_the_news_are_the_whole(of_node: list[tuple[int, int, float]], cuts: list[int]) -> None:
    """As a browser puts them together: a round that is told again takes the place of what it was."""
    history, held, mark = {"anna": NodeHistory(epoch=1)}, dict[int, Any](), dict[str, tuple[int, int]]()
    for number, (round_, stage, reward) in enumerate(of_node):
        history["anna"].observe([a_row(round_, stage=stage, my_reward=reward)])
        if number in cuts or number == len(of_node) - 1:
            told = news(history, mark)["nodes"].get("anna", {"rounds": [], "columns": {"my_reward": [], "earned": []}})
            columns = told["columns"]
            held |= dict(zip(told["rounds"], zip(columns["my_reward"], columns["earned"], strict=True), strict=True))
            mark = mark_of(history)
    if not of_node:
        return
    found = whole(history, ["my_reward", "earned"])
    columns = found["nodes"]["anna"]["columns"]
    pairs = zip(floats(columns["my_reward"]), floats(columns["earned"]), strict=True)
    assert {round_: held[round_] for round_ in sorted(held)} == dict(zip(rounds_of(found, "anna"), pairs, strict=True))


def test_format_and_knowledge_of_a_task_stand_apart() -> None:
    told = {"task_rewards": {"knots": 0.2}, "task_tag_rates": {"knots": 0.4}}
    untold = {"task_rewards": {"knots": 0.6}, "task_tag_rates": {}}
    found = tasks_of({"anna": a_node(a_row(0, **told)), "ben": a_node(a_row(0, **untold))})
    assert found["tasks"]["knots"] == {"rounds": [0], "reward": (0.4,), "tagged": (0.4,), "given_tagged": (0.5,)}
    assert tasks_of({"anna": a_node(a_row(0, **told)), "ben": a_node()}, "ben")["tasks"] == {}


def test_a_long_run_of_a_task_is_told_in_stretches() -> None:
    node = a_node(*(a_row(round_, task_rewards={"knots": 0.5}) for round_ in range(600)))
    found = tasks_of({"anna": node})
    assert found["stretch"] == 10
    assert len(found["tasks"]["knots"]["rounds"]) == 60


def test_the_matrix_counts_groups_by_origin_and_adopter() -> None:
    anna = a_node(a_row(0, external_by_peer={"ben": 2}), a_row(1, external_by_peer={"ben": 1, "gone": 4}))
    found = matrix({"anna": anna, "ben": a_node(a_row(0)), "clock": a_node()})
    assert (found["adopters"], found["origins"]) == (["anna", "ben"], ["anna", "ben", "gone"])
    assert found["counts"] == [[0, 3, 4], [0, 0, 0]]
    assert found["last"] == [[0, 1, 4], [0, 0, 0]]
    assert found["left_out"] == 0
