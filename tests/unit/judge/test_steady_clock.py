"""One write of the state file neither blinds a judge nor ends it."""

from __future__ import annotations

import pytest

from swarm.judge.judge_machine import NEAR, SteadyClock
from tests.unit.node.factories import make_state

SETTLE = 3.0


def at(clock: SteadyClock, now: float, round_: int, *, finished: bool = False) -> tuple[int, bool]:
    rounds = round_ if finished else 10**9 + 1
    taken = clock.observe(make_state(round=round_, max_rounds=rounds, finished=finished), now)
    return (taken.round, taken.finished) if taken else (-1, False)


@pytest.mark.parametrize(("round_", "finished"), [(10**9, False), (10, True), (6, True), (0, False)])
def test_what_somebody_wrote_once_is_not_taken_for_the_clock(round_: int, finished: bool) -> None:
    clock = SteadyClock(SETTLE)
    assert at(clock, 0.0, 5) == (5, False)
    assert at(clock, 1.0, round_, finished=finished) == (5, False)
    assert at(clock, 2.0, 6) == (6, False)  # the coordinator wrote over it
    assert at(clock, 9.0, round_, finished=finished) == (6, False)


@pytest.mark.parametrize(("round_", "finished"), [(50, False), (10, True), (0, False)])
def test_what_stays_is_taken(round_: int, finished: bool) -> None:
    clock = SteadyClock(SETTLE)
    at(clock, 0.0, 5)
    at(clock, 1.0, round_, finished=finished)
    assert at(clock, 1.0 + SETTLE, round_, finished=finished) == (round_, finished)


def test_a_clock_that_goes_on_while_it_is_doubted_is_taken_as_far_as_it_is() -> None:
    clock = SteadyClock(SETTLE)
    at(clock, 0.0, 5)
    assert [at(clock, 1.0 + step, 20 + step)[0] for step in range(4)] == [5, 5, 5, 23]
    assert at(clock, 5.0, 23 + NEAR) == (23 + NEAR, False)


def test_an_end_that_is_there_from_the_first_ends_nobody_at_once() -> None:
    clock = SteadyClock(SETTLE)
    assert clock.observe(None, 0.0) is None
    assert at(clock, 0.0, 10, finished=True) == (-1, False)
    assert at(clock, SETTLE, 10, finished=True) == (10, True)


def test_an_end_before_the_last_round_is_no_coordinators_however_long_it_stays() -> None:
    clock = SteadyClock(SETTLE)
    at(clock, 0.0, 5)
    for now in (1.0, 1.0 + SETTLE, 1.0 + 10 * SETTLE):
        taken = clock.observe(make_state(round=7, max_rounds=10, finished=True), now)
        assert taken is not None
        assert (taken.round, taken.finished) == (5, False)
