"""Which rounds go: never what somebody may still read, and never because of what a stranger writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.config import Settings
from swarm.records.retention import LEAST_KEPT, Keeping, first_kept, keeping, needed_from, worth_archiving
from swarm.store.base import Entry, Kind

KEEP = Keeping(last=10, reach=30)
LIVED = list(range(100))


def test_the_last_rounds_stay() -> None:
    assert first_kept(LIVED, [99], KEEP) == 90


def test_what_a_worker_needs_to_redo_its_rounds_stays_too() -> None:
    assert first_kept(LIVED, [99, 83], KEEP) == 83


def test_nobody_holds_rounds_for_ever() -> None:
    assert first_kept(LIVED, [0], KEEP) == 70


def test_who_has_lived_through_too_few_rounds_takes_nothing() -> None:
    assert first_kept(LIVED[-9:], [99], KEEP) == 0
    assert first_kept(LIVED[-29:], [0], KEEP) == 0


def test_a_clock_that_jumped_takes_no_round_along() -> None:
    """Whoever drives a node to round 10^9 would else have it delete the rounds that all others are in."""
    jumped = [*range(50), *range(10**9, 10**9 + 9)]
    assert first_kept(jumped, [10**9], KEEP) == 49


@given(
    st.lists(st.integers(0, 10**9), max_size=60, unique=True).map(sorted),
    st.lists(st.integers(0, 10**9), max_size=9),
    st.integers(3, 20),
    st.integers(0, 20),
)
def test_what_is_asked_for_always_stays_and_more_needs_take_no_more(
    lived: list[int], needs: list[int], last: int, more: int
) -> None:
    kept = Keeping(last, last + more)
    first = first_kept(lived, needs, kept)
    assert sum(round_ >= first for round_ in lived) >= min(last, len(lived))
    assert first_kept(lived, [*needs, 0], kept) <= first
    assert first_kept(lived, [], kept) >= first
    assert first == 0 or sum(round_ >= first for round_ in lived) <= kept.reach or min(needs) >= first


@pytest.mark.parametrize(
    ("saved", "redo", "expected"), [((), 100, 0), ((20, 30), 100, 18), ((20, 30), 0, 43), ((60,), 100, 43)]
)
def test_a_worker_needs_what_its_oldest_checkpoint_leaves_to_be_redone(
    saved: tuple[int, ...], redo: int, expected: int
) -> None:
    assert needed_from(saved, 45, Settings(redo_rounds=redo)) == expected


def test_redoing_goes_before_the_number_that_is_asked_for() -> None:
    assert keeping(Settings(keep_last_rounds=1, redo_rounds=0, staleness_window=0)) == (LEAST_KEPT, LEAST_KEPT)
    assert keeping(Settings(keep_last_rounds=10, redo_rounds=100)) == (10, 103)


def test_of_a_flood_of_names_those_are_archived_that_nodes_would_read() -> None:
    found = [(f"k/{node}", node, Entry(node, Kind.FILE, 10)) for node in ("zoe", *(f"eve{n:03}" for n in range(300)))]
    assert len(worth_archiving(found, {"zoe"}, 256, 10**9)) == 256
    assert worth_archiving(found, {"zoe"}, 256, 25) == ["k/eve000", "k/eve001", "k/zoe"]
