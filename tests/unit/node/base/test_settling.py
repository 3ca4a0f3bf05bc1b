"""When workers that are started one after the other begin together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swarm.node.base.attendance import MOST_COUNTED, Settling

NOBODY: frozenset[str] = frozenset()


def of(*names: str) -> frozenset[str]:
    return frozenset(names)


def make(known: frozenset[str] = NOBODY) -> Settling:
    return Settling(15.0, 120.0, known)


def test_workers_that_come_each_within_the_settling_time_of_the_one_before_begin_together() -> None:
    settling, live = make(), set[str]()
    for number in range(8):
        live.add(f"node{number}")
        assert settling.look(12.0 * number, NOBODY, live) is not None
    assert settling.look(12.0 * 7 + 14.9, NOBODY, live) is not None
    assert settling.look(12.0 * 7 + 15.0, NOBODY, live) is None


def test_who_is_loading_is_waited_for_however_long_ago_the_last_one_came() -> None:
    settling = make()
    settling.look(0.0, of("ben"), of("anna"))
    wait = settling.look(60.0, of("ben"), of("anna"))
    assert wait is not None
    assert wait.starting == of("ben")
    assert settling.look(60.0, NOBODY, of("anna", "ben")) is None


def test_who_has_left_is_not_waited_for() -> None:
    settling = make()
    assert settling.look(0.0, of("ben"), of("anna")) is not None
    assert settling.look(15.0, NOBODY, of("anna")) is None


def test_nothing_begins_while_nobody_is_ready() -> None:
    settling = make()
    for now in (0.0, 100.0, 1e6):
        wait = settling.look(now, of("anna"), NOBODY)
        assert wait is not None
        assert wait.until is None


def test_a_worker_that_crashes_and_comes_back_again_and_again_starts_no_settling_anew() -> None:
    settling = make()
    for now in range(15):
        assert settling.look(float(now), of("ben") if now % 2 else NOBODY, of("anna")) is not None
    assert settling.look(16.0, NOBODY, of("anna")) is None


@given(st.integers(1, 14), st.booleans(), st.floats(0.0, 300.0))
def test_strangers_with_ever_new_names_cost_two_intervals_after_the_first_was_ready_and_no_more(
    every: int, ready: bool, first: float
) -> None:
    settling, names, now = make(), set[str](), 0.0
    while True:
        names.add(f"stranger{now}")
        anna = of("anna") if now >= first else NOBODY
        wait = settling.look(now, NOBODY, anna | names) if ready and anna else settling.look(now, names, anna)
        if wait is None:
            break
        now += every
    assert first + 120.0 <= now <= first + 120.0 + 2 * every


def test_a_flood_of_names_is_not_counted_for_ever() -> None:
    settling = make()
    settling.look(0.0, frozenset(f"stranger{number}" for number in range(MOST_COUNTED)), of("anna"))
    assert settling.look(10.0, of("one-more"), of("anna")) is not None
    assert settling.look(15.1, of("another"), of("anna")) is None


def test_after_a_restart_those_of_the_last_rounds_are_enough() -> None:
    settling = make(known=of("anna", "ben"))
    assert settling.look(0.0, of("carol", "ben"), of("anna")) is not None
    assert settling.look(1.0, of("carol"), of("anna", "ben")) is None
