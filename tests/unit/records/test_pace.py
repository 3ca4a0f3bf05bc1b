"""How fast a run goes, who took part when, and how rewards spread."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.records.hints import Recent, recent
from swarm.records.pace import seconds_per_round, spread, tokens_per_second
from swarm.records.progress import NodeProgress


def row(number: int, timestamp: float, **fields: int) -> Recent:
    return recent(NodeProgress.form(round=number, my_reward=0.0, timestamp=timestamp, **fields))


def test_the_pace_is_the_median_step_so_that_a_pause_does_not_count() -> None:
    assert seconds_per_round([row(0, 0), row(1, 2), row(2, 4), row(3, 1000), row(4, 1002)]) == 2.0


def test_rounds_that_were_skipped_share_the_time_between() -> None:
    assert seconds_per_round([row(0, 0), row(4, 8)]) == 2.0


def test_one_row_has_no_pace_and_no_rate() -> None:
    assert seconds_per_round([row(0, 5)]) is None
    assert tokens_per_second([row(0, 5, tokens_generated=9)]) is None
    assert spread([0.5]) is None


def test_the_tokens_of_the_first_row_were_sampled_before_its_time() -> None:
    assert tokens_per_second([row(n, 10 * n, tokens_generated=100) for n in range(3)]) == 10.0


def test_the_spread_is_five_numbers() -> None:
    of = spread([0.0, 0.1, 0.2, 0.3, 0.4])
    assert of is not None
    assert (of.count, of.least, of.most) == (5, 0.0, 0.4)
    assert (of.lower_quartile, of.median, of.upper_quartile) == pytest.approx((0.1, 0.2, 0.3))


@given(st.lists(st.tuples(st.integers(0, 2**53), st.floats(0, 1e11), st.integers(0, 10**12)), max_size=30))
def test_whatever_times_strangers_write_the_pace_is_a_number_or_none(rows: list[tuple[int, float, int]]) -> None:
    given_rows = [row(number, at, tokens_generated=tokens) for number, at, tokens in rows]
    assert (seconds_per_round(given_rows) or 0.0) >= 0.0
    assert (tokens_per_second(given_rows) or 0.0) >= 0.0
