"""Whether an adaptive rule moved J."""

from __future__ import annotations

from swarm.plugins.study.split_moves import Moves, moves_of, said, together
from tests.unit.records.test_hints import row


def moves(J: list[float]) -> Moves:
    found = moves_of([row(n, adaptive_J_continuous=value) for n, value in enumerate(J)])
    assert found
    return found


def test_rows_without_a_rule_have_no_moves() -> None:
    assert moves_of([row(0), row(1)]) is None
    assert together([]) is None


def test_a_j_that_went_half_a_group_away_and_came_back_has_left() -> None:
    assert said("fast", moves([4.0, 4.5, 4.0])) == ""
    text = said("slow", moves([4.0, 4.49, 4.0]))
    assert text.startswith("slow did not adapt: J was never more than 0.490 away from its first value in 3 rounds")
    assert "ADAPTIVE_IJ_ALPHA or SWARM_ADAPTIVE_RULE=gradient-scaled" in text


def test_of_several_nodes_one_that_left_is_enough() -> None:
    found = together([moves([4.0, 4.0, 4.0]), moves([4.0, 5.0])])
    assert found == Moves(3, 1.0)
