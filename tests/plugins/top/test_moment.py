"""Which answer is shown."""

from __future__ import annotations

from typing import Any

import msgspec

from swarm.plugins.top.moment import Moment, moment_of
from swarm.records.groups import Group
from swarm.records.history import History, NodeHistory
from tests.unit.views.test_groups import make_group, make_shown


def history_of(**rewards: list[float]) -> NodeHistory:
    """Task -> its mean reward in each round."""
    node = NodeHistory()
    for number in range(max(map(len, rewards.values()), default=0)):
        of_round = {task: of_task[number] for task, of_task in rewards.items() if number < len(of_task)}
        row = {"round": number, "my_reward": 0.1, "local_groups": 4, "task_rewards": of_round, "schema_version": 1}
        node.observe([msgspec.json.encode(row)])
    return node


def group(node: str, *rewards: float, **fields: Any) -> Group:
    shown = (make_shown(f"answer {number}", reward) for number, reward in enumerate(rewards))
    return make_group(*shown, **({"node": node} | fields))


def found(history: History, *groups: Group) -> Moment:
    moment = moment_of(history, groups)
    assert moment
    return moment


def test_a_first_right_answer_comes_before_a_rarer_one_that_is_not_the_first() -> None:
    history = {"alice": history_of(binary_matrix=[0.0, 0.01, 0.0]), "bob": history_of(binary_matrix=[0.5, 0.0, 0.0])}
    moment = found(history, group("alice", 0.0, 1.0, 1.0, 0.0), group("bob", 0.0, 1.0, 0.0, 0.0))
    assert moment.headline == "alice solved its first binary_matrix in round 3, 2 of 4 answers"
    assert (moment.question, moment.answer, moment.group) == ("1 + 1?", "answer 1", "alice/3/0/1")


def test_one_right_answer_in_an_earlier_round_is_enough_for_a_task_to_have_been_solved() -> None:
    one_of_16 = {"alice": history_of(binary_matrix=[1 / 16, 0.0, 0.0])}
    assert "solved binary_matrix" in found(one_of_16, group("alice", 1.0, 0.0, 0.0, 0.0)).headline
    less = {"alice": history_of(binary_matrix=[0.99 / 16, 0.0, 0.0])}
    assert "solved its first" in found(less, group("alice", 1.0, 0.0, 0.0, 0.0)).headline


def test_a_task_that_was_never_asked_before_is_solved_for_the_first_time_by_who_has_a_past() -> None:
    assert "its first" in found({"alice": history_of(bf=[0.0] * 3)}, group("alice", 1.0, 0.0)).headline
    assert "its first" not in found({}, group("alice", 1.0, 0.0)).headline
    assert "its first" not in found({"alice": history_of(bf=[0.0])}, group("alice", 1.0, 0.0, round=0)).headline


def test_where_rows_do_not_reach_up_to_the_round_nobody_says_that_it_is_the_first() -> None:
    lost = {"alice": history_of(binary_matrix=[0.0, 0.0])}
    assert found(lost, group("alice", 1.0, 0.0)).headline.startswith("alice solved binary_matrix")


def test_the_round_of_the_group_itself_does_not_count_as_its_past() -> None:
    history = {"alice": history_of(binary_matrix=[0.0, 0.0, 0.0, 0.5])}
    assert "solved its first" in found(history, group("alice", 1.0, 0.0)).headline


def test_the_rarer_right_answer_is_shown_and_without_any_an_answer_all_the_same() -> None:
    moment = found({}, group("alice", 1.0, 1.0, 0.0), group("bob", 0.0, 0.0, 1.0))
    assert moment.headline == "bob solved binary_matrix in round 3, 1 of 3 answers"
    assert moment.answer == "answer 2"
    none = found({}, group("alice", 0.0, 0.5))
    assert none.headline == "alice answered binary_matrix in round 3; none of 2 answers is right"
    assert moment_of({}, []) is None
    assert moment_of({}, [make_group()]) is None


def test_an_answer_without_a_claim_is_not_right() -> None:
    assert "none of 1" in found({}, make_group(make_shown("x", None))).headline
