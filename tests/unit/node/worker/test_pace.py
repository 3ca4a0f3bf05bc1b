"""How long gathering may take."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swarm.node.worker.worker_machine import GatherPace


def make_pace(*waits: float, longest: float = 30.0) -> GatherPace:
    pace = GatherPace(longest)
    for wait in waits:
        pace.observe(wait)
    return pace


def test_the_first_wait_may_be_as_long_as_it_takes() -> None:
    assert make_pace(longest=30.0).allowance() == 30.0


def test_who_never_waited_still_waits_when_it_is_first_for_once() -> None:
    """Of two nodes of about the same speed the slower one finds all groups there, until it is the quicker one."""
    assert make_pace(*[0.0] * 20, longest=30.0).allowance() >= 3.0


def test_a_deadline_that_came_too_early_is_followed_by_later_ones() -> None:
    """A fixed sleep was once used as a barrier, so nobody's rollouts were there yet."""
    pace = make_pace(0.0)
    allowances = [pace.allowance()]
    while allowances[-1] < 30.0:
        pace.observe(allowances[-1])
        allowances.append(pace.allowance())
    assert allowances == sorted(set(allowances))
    assert len(allowances) < 8, "a peer that needs half a minute is heard after a few rounds"


def test_one_slow_round_is_forgotten_after_some_quick_ones() -> None:
    pace = make_pace(14.0, *[0.1] * (GatherPace.WINDOW - 1))
    assert pace.allowance() == 28.5
    pace.observe(0.1)
    assert pace.allowance() == 3.0


@given(st.lists(st.floats(0, 1e6)), st.floats(0.01, 1e5))
def test_no_wait_is_longer_than_the_longest(waits: list[float], longest: float) -> None:
    assert 0 < make_pace(*waits, longest=longest).allowance() <= longest


@given(st.lists(st.floats(0, 10), min_size=1, max_size=GatherPace.WINDOW))
def test_whoever_was_heard_lately_would_be_waited_for_again(waits: list[float]) -> None:
    assert make_pace(*waits, longest=1e3).allowance() > max(waits)
