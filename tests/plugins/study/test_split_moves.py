"""Whether an adaptive rule moved J, and what would move it."""

from __future__ import annotations

from swarm.plugins.study.split_moves import Moves, moves_of, said, together
from tests.unit.records.test_hints import row


def moves(J: list[float], surprise: float = 0.01) -> Moves:
    rows = [
        row(n, adaptive_J_continuous=value, adaptive_round_reward=0.2 + surprise, adaptive_baseline=0.2)
        for n, value in enumerate(J)
    ]
    found = moves_of(rows)
    assert found
    return found


def test_rows_without_a_rule_have_no_moves() -> None:
    assert moves_of([row(0), row(1)]) is None
    assert together([]) is None


def test_a_j_that_went_half_a_group_away_and_came_back_has_left() -> None:
    assert not moves([4.0, 4.5, 4.0]).stayed
    assert said("fast", moves([4.0, 4.5, 4.0]), "gradient", 0.1) == ""
    assert moves([4.0, 4.49, 4.0]).stayed


def test_a_rule_that_never_left_its_first_j_is_said_with_what_would_move_it() -> None:
    text = said("slow", moves([4.0, 3.9, 3.95]), "gradient", 0.1)
    assert "slow did not adapt: J began as 4.000, ended as 3.950 and was never more than 0.100 away in 3 rounds" in text
    assert "0.1 times 0.0100 in the mean" in text
    assert "ADAPTIVE_IJ_ALPHA=0.5" in text, "five times as far"
    assert "some 30 rounds of the same drift" in text
    assert "SWARM_ADAPTIVE_RULE=gradient-scaled" in text


def test_an_alpha_that_cannot_be_is_not_recommended() -> None:
    text = said("slow", moves([4.0, 3.994]), "gradient", 0.1)
    assert "ADAPTIVE_IJ_ALPHA=" not in text
    assert "1 is the largest" in text


def test_where_no_reward_differed_from_its_baseline_no_alpha_is_named() -> None:
    text = said("still", moves([2.0, 2.0], surprise=0.0), "gradient", 0.1)
    assert "no alpha moves J" in text
    assert "ADAPTIVE_IJ_ALPHA" not in text


def test_other_rules_are_said_without_the_steps_of_this_one() -> None:
    assert said("other", moves([2.0, 2.0]), "reward-trend", 0.1).endswith("the split of the first one.")


def test_of_several_nodes_one_that_left_is_enough() -> None:
    found = together([moves([4.0, 4.0]), moves([4.0, 5.0])])
    assert found
    assert not found.stayed
    assert found.last == 4.5
