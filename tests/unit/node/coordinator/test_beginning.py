"""How a clock begins, and goes on after deaths, where nobody said how many workers there are."""

from __future__ import annotations

import pytest

from swarm.config import Settings
from swarm.node.coordinator.coordinator_machine import CoordinatorLook, CoordinatorMachine, FolderClock, WriteState
from swarm.types import RoundKey
from tests.unit.node.factories import there

NOBODY: frozenset[str] = frozenset()
ALL = frozenset({"anna", "ben", "carol"})
ANNA, BEN = frozenset({"anna"}), frozenset({"ben"})


class Clock:
    """A coordinator's machine, whose decisions are in the folder at its next look."""

    def __init__(self, *, at: int = 0, interval: float = 60.0, resumed: bool = False, **asked: object) -> None:
        self.machine = CoordinatorMachine(Settings(max_rounds=100, round_interval=interval, **asked))  # type: ignore[arg-type]
        assert self.machine.resume(RoundKey(at)) is None
        self._folder = FolderClock(RoundKey(at), finished=False, held=True) if resumed else None

    def look(
        self,
        now: float,
        live: frozenset[str],
        submitted: frozenset[str] = NOBODY,
        coming: frozenset[str] = NOBODY,
        working: frozenset[str] = NOBODY,
        before: frozenset[str] = NOBODY,
    ) -> WriteState | None:
        seen = CoordinatorLook(
            now, live, submitted, self._folder, coming=coming, working=working, submitted_before=before, called=live
        )
        decided = self.machine.handle(seen)
        assert decided is None or isinstance(decided, WriteState)
        if decided:
            self._folder = FolderClock(decided.key, decided.finished)
        return decided

    def rounds(self, count: int, seconds: float) -> float:
        """So many rounds of all three, of so many seconds each; the time after them."""
        now = 100.0
        self.look(0.0, ALL)
        assert self.look(now, ALL) is not None
        for _ in range(count):
            now += seconds
            assert self.look(now, ALL, submitted=ALL, before=ALL) is not None
        return now


def test_terminals_that_are_opened_one_after_the_other_begin_together() -> None:
    clock = Clock()
    assert clock.look(0.0, NOBODY, coming=ANNA) is None
    assert clock.look(8.0, ANNA, coming=BEN) is None
    assert clock.look(12.0, ANNA | BEN, coming=frozenset({"carol"})) is None
    assert clock.look(26.0, ALL) is None, "the last one came 14 seconds ago"
    opened = there(clock.look(27.0, ALL))
    assert (opened.key, opened.reason, opened.missing) == (RoundKey(0), "opened", NOBODY)


def test_without_a_settling_time_a_worker_alone_begins_as_soon_as_it_is_ready() -> None:
    clock = Clock(settle_time=0.0)
    assert clock.look(0.0, NOBODY, coming=ANNA) is None
    assert clock.look(5.0, ANNA) is not None


def test_a_claim_to_be_at_work_opens_no_round_that_was_never_begun() -> None:
    assert Clock().look(0.0, ANNA, working=ANNA) is None


# ── restarts ────────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("expected", [None, 4])
def test_a_coordinator_that_starts_again_goes_on_at_once_where_a_worker_is_at_work_in_the_round(
    expected: int | None,
) -> None:
    clock = Clock(at=7, resumed=True, expected_workers=expected)
    assert there(clock.look(0.0, ALL, working=ANNA, before=ALL)).key == RoundKey(7)


def test_after_the_whole_session_was_cut_off_those_of_the_last_rounds_are_waited_for_and_nobody_else() -> None:
    clock = Clock(at=7, resumed=True)
    assert clock.look(0.0, NOBODY, coming=ALL, before=ALL) is None
    assert clock.look(9.0, ANNA | BEN, coming=frozenset({"carol"}), before=ALL) is None
    assert clock.look(10.0, ALL, before=ALL) is not None, "no settling time: everybody is there"


def test_after_a_restart_by_number_those_who_do_not_come_are_named() -> None:
    clock = Clock(at=7, resumed=True, expected_workers=3)
    assert clock.look(0.0, ANNA | BEN, before=ALL) is None
    assert there(clock.look(60.0, ANNA | BEN, before=ALL)).missing == frozenset({"carol"})


# ── deaths in an open round ─────────────────────────────────────────────────────────────────────────────────────────
def test_a_worker_that_loads_again_is_waited_for_two_median_rounds_and_no_longer() -> None:
    clock = Clock()
    now = clock.rounds(5, seconds=4.0)
    others = ALL - BEN
    assert clock.look(now + 2.0, others, submitted=others, coming=BEN, before=ALL) is None
    assert clock.look(now + 9.9, others, submitted=others, coming=BEN, before=ALL) is None
    assert there(clock.look(now + 10.0, others, submitted=others, coming=BEN, before=ALL)).reason == "all_submitted"
    again = clock.look(now + 14.0, others, submitted=others, coming=BEN, before=ALL)
    assert again is not None, "the wait is one for each death, not for each round"


def test_where_workers_are_expected_the_round_waits_and_names_whom() -> None:
    clock = Clock(expected_workers=3)
    now = clock.rounds(5, seconds=4.0)
    others = ALL - BEN
    assert clock.look(now + 59.0, others, submitted=others, coming=BEN, before=ALL) is None
    closed = there(clock.look(now + 60.0, others, submitted=others, coming=BEN, before=ALL))
    assert (closed.reason, closed.missing) == ("interval", BEN)


def test_when_everybody_has_died_the_open_round_waits_until_they_are_back() -> None:
    clock = Clock()
    now = clock.rounds(5, seconds=4.0)
    assert clock.look(now + 1.0, NOBODY, submitted=ANNA, coming=ALL, before=ALL) is None
    assert clock.look(now + 300.0, ANNA, submitted=ANNA, coming=ALL - ANNA, before=ALL) is None
    assert clock.look(now + 330.0, ALL, submitted=ANNA, before=ALL) is None
    assert there(clock.look(now + 334.0, ALL, submitted=ALL, before=ALL)).reason == "all_submitted"


def test_who_comes_new_to_an_open_round_that_all_have_left_waits_for_nobody() -> None:
    clock = Clock()
    now = clock.rounds(5, seconds=4.0)
    assert clock.look(now + 1.0, NOBODY, before=ALL) is None
    dave = frozenset({"dave"})
    assert there(clock.look(now + 2.0, dave, submitted=dave, before=ALL)).reason == "all_submitted"
