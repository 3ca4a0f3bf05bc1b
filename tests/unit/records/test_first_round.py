"""What a first round says of the others, and what is said where nothing was to be learned."""

from __future__ import annotations

from typing import Any

import pytest

from swarm.records.first_round import FirstRound, advice, first_round
from swarm.records.pace import Share
from swarm.wire.metrics import MetricsRow
from tests.unit.records.test_hints import row

REAL = ["Qwen/Qwen2.5-0.5B-Instruct"]


def found(*rows: MetricsRow, rounds_left: int = 39) -> FirstRound:
    first = first_round(rows, rounds_left, generations=8)
    assert first is not None
    return first


def one(**changes: Any) -> FirstRound:
    return found(row(0, **changes))


def test_shares_are_over_the_groups_of_all_nodes() -> None:
    few = row(0, local_groups=1, my_reward=0.5, zero_advantage_local=0.0, answer_tag_rate=1.0, seconds_round=2.0)
    many = row(0, local_groups=3, my_reward=0.1, zero_advantage_local=2 / 3, answer_tag_rate=0.2, seconds_round=9.0)
    both = found(few, many)
    assert (both.groups, both.completions, both.with_signal) == (4, 32, 2)
    assert (both.reward.mean, both.tagged.mean) == (pytest.approx(0.2), pytest.approx(0.4))
    assert both.seconds_left == 39 * 9.0


def test_the_interval_counts_questions_not_completions() -> None:
    """Wilson's for none of 16: completions of one question are not independent of each other."""
    nodes = [row(0, my_reward=0.0, local_groups=4) for _ in range(4)]
    assert found(*nodes).reward == Share(0.0, 0.0, pytest.approx(0.1936, abs=1e-4))


def test_nodes_without_groups_of_their_own_say_nothing() -> None:
    assert first_round([row(0, local_groups=0)], 39, 8) is None
    assert found(row(0), row(0, local_groups=0, seconds_round=99.0)) == one()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"answer_tag_rate": 0.0, "my_reward": 0.0}, "none of 32 completions has a closed <answer>"),
        ({"my_reward": 0.0}, "take easier questions"),
        ({"my_reward": 1.0}, "take harder questions"),
    ],
)
def test_where_no_group_has_a_signal_the_probe_is_named(changes: dict[str, Any], expected: str) -> None:
    said = advice(one(zero_advantage_local=1.0, **changes), REAL)
    assert expected in said
    assert f"`swarm probe --model {REAL[0]}`" in said


def test_of_an_embedded_model_the_start_is_known_on_the_tasks_that_it_was_made_for() -> None:
    nothing = {"zero_advantage_local": 1.0, "my_reward": 0.0}
    assert advice(one(**nothing), ["tiny-2-qwen2-rare"]) == ""
    assert "--model" in advice(one(**nothing, task_rewards={"dataset/mine": 0.0}), ["tiny-2-qwen2"])
