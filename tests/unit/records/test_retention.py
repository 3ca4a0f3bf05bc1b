"""Which rounds go: never what somebody may still read, and never because of what a stranger writes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.config import Settings
from swarm.records.retention import (
    LEAST_KEPT,
    Keeping,
    Lived,
    WorkerNeed,
    first_kept,
    held_in_place,
    keeping,
    more_than_asked,
    needed_from,
    worth_archiving,
)
from swarm.store.base import Entry, Kind

KEEP = Keeping(last=10, reach=30)
LIVED = list(range(100))


JUMPED = [*range(50), *range(10**9, 10**9 + 9)]
"""Whoever drives a node to round 10^9 would else have it delete the rounds that all others are in."""


@pytest.mark.parametrize(
    ("lived", "needs", "first"),
    [
        (LIVED, [99], 90),
        (LIVED, [99, 83], 83),
        (LIVED, [0], 70),
        (LIVED[-9:], [99], 0),
        (LIVED[-29:], [0], 0),
        (JUMPED, [10**9], 49),
    ],
    ids=["the last", "what is to be redone", "not for ever", "too few lived through", "too few to reach", "a jump"],
)
def test_the_last_rounds_stay_and_what_a_worker_needs_to_redo_its_rounds(
    lived: list[int], needs: list[int], first: int
) -> None:
    assert first_kept(lived, needs, KEEP) == first


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


def settings(**more: Any) -> Settings:
    return Settings(**{"cleanup": True, "keep_last_rounds": 5} | more)


IN_STEP = [Lived(round_, round_) for round_ in range(45)]
"""Rounds in which groups of the same round were trained on."""


@pytest.mark.parametrize(
    ("saved", "done", "more", "expected"),
    [
        ((), 45, {}, 0),
        ((20, 30), 45, {}, 30),
        ((20, 30), 45, {"redo_rounds": 0}, 45),
        ((45,), 45, {}, 45),
        ((20, 30), 45, {"cleanup": False}, 20),
        ((20, 30), 45, {"archive_old": True}, 20),
        ((45,), 45, {"clock": "own"}, 43),
        ((20, 45), 44, {}, 45),
        ((20, 45), 44, {"clock": "own"}, 45),
    ],
)
def test_a_worker_needs_what_is_to_be_redone_since_its_newest_checkpoint_or_its_oldest_where_nothing_is_deleted(
    saved: tuple[int, ...], done: int, more: dict[str, Any], expected: int
) -> None:
    """On its own clock, what it may still learn from, too."""
    assert needed_from(saved, done, IN_STEP, settings(**more)) == expected


def test_a_worker_needs_the_older_groups_that_these_rounds_were_trained_on() -> None:
    lived = [*IN_STEP[:29], Lived(29, 20), Lived(30, 28), Lived(31, 31)]
    assert needed_from((20, 30), 32, lived, settings()) == 28


def test_what_is_archived_is_held_by_nobody_but_those_who_may_learn_from_it() -> None:
    needs = [WorkerNeed(3, 40), WorkerNeed(7, None)]
    assert held_in_place(needs, settings()) == [3, 7]
    assert held_in_place(needs, settings(archive_old=True)) == []
    assert held_in_place(needs, settings(archive_old=True, clock="own")) == [38]


@pytest.mark.parametrize(
    ("more", "rounds"),
    [
        ({"checkpoint_interval": 5}, None),
        ({"checkpoint_interval": 100, "cleanup": False}, None),
        ({"checkpoint_interval": 100, "archive_old": True}, None),
        ({"checkpoint_interval": 100, "redo_rounds": 0}, None),
        ({"checkpoint_interval": 6}, 6),
        ({"checkpoint_interval": 5, "clock": "own"}, 7),
        ({"checkpoint_interval": 0}, 100),
        ({"checkpoint_interval": 100, "redo_rounds": 50}, 50),
        ({"checkpoint_interval": 1, "staleness_window": 9}, 10),
    ],
)
def test_how_many_rounds_stay_is_said_where_they_are_more_than_asked_for(
    more: dict[str, Any], rounds: int | None
) -> None:
    told = more_than_asked(settings(**more))
    assert (told and told.rounds) == rounds


def test_where_as_many_checkpoints_are_taken_as_is_advised_no_more_rounds_stay_than_asked_for() -> None:
    told = more_than_asked(settings(checkpoint_interval=100))
    assert told
    assert "CHECKPOINT_INTERVAL=5 or less, or ROLLOUT_ARCHIVE_OLD=True" in told.remedy
    own = more_than_asked(settings(checkpoint_interval=100, clock="own"))
    assert own
    assert "CHECKPOINT_INTERVAL=3 or less" in own.remedy


def test_redoing_goes_before_the_number_that_is_asked_for() -> None:
    assert keeping(Settings(keep_last_rounds=1, redo_rounds=0, staleness_window=0)) == (LEAST_KEPT, LEAST_KEPT)
    assert keeping(Settings(keep_last_rounds=10, redo_rounds=100)) == (10, 103)


def test_of_a_flood_of_names_those_are_archived_that_nodes_would_read() -> None:
    found = [(f"k/{node}", node, Entry(node, Kind.FILE, 10)) for node in ("zoe", *(f"eve{n:03}" for n in range(300)))]
    assert len(worth_archiving(found, {"zoe"}, 256, 10**9)) == 256
    assert worth_archiving(found, {"zoe"}, 256, 25) == ["k/eve000", "k/eve001", "k/zoe"]
