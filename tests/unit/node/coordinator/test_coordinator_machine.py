"""What the round clock decides."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm.config import Settings
from swarm.node.coordinator.coordinator_machine import (
    CoordinatorLook,
    CoordinatorMachine,
    FolderClock,
    StepDown,
    WriteState,
    majority_front,
)
from swarm.types import RoundKey
from tests.unit.node.factories import there

ALICE_BOB, ALICE, BOB = frozenset({"alice", "bob"}), frozenset({"alice"}), frozenset({"bob"})
NOBODY: frozenset[str] = frozenset()


def make_machine(
    *, rounds: int = 5, stages: int = 1, interval: float = 60.0, expected: int | None = 1, at: RoundKey | None = None
) -> CoordinatorMachine:
    """A machine that resumes at a round."""
    asked = Settings(max_rounds=rounds, max_stages=stages, round_interval=interval, expected_workers=expected)
    machine = CoordinatorMachine(asked)
    assert machine.resume(at or RoundKey(0)) is None
    return machine


def look(
    now: float, live: frozenset[str] = ALICE_BOB, submitted: frozenset[str] = NOBODY, **seen: Any
) -> CoordinatorLook:
    """What is seen where the folder says what was decided; `clock` says what it says instead."""
    return CoordinatorLook(now, live, submitted, seen.pop("clock", None), **seen)


class Keeper:
    """A machine whose decisions are written at once, so that the next look finds them."""

    def __init__(self, machine: CoordinatorMachine) -> None:
        self.machine = machine

    @property
    def key(self) -> RoundKey | None:
        return self.machine.key

    def handle(self, seen: CoordinatorLook) -> WriteState | None:
        if seen.clock is None and self.machine.key is not None:
            seen = replace(seen, clock=FolderClock(self.machine.key, self.machine.finished))
        decision = self.machine.handle(seen)
        assert not isinstance(decision, StepDown)
        return decision


def open_first(machine: CoordinatorMachine, now: float = 0.0) -> Keeper:
    assert machine.handle(look(now)) is not None
    return Keeper(machine)


# ── opening ─────────────────────────────────────────────────────────────────────────────────────────────────────────
FAKES = ("fake-0", "fake-1")
OPENINGS: dict[str, tuple[int | tuple[str, ...] | None, list[tuple[float, Collection[str]]]]] = {
    "when the expected workers are there": (2, [(0.0, ALICE), (1.0, ALICE_BOB)]),
    "one interval after the first came": (3, [(1000.0, ()), (1001.0, ALICE), (1060.9, ALICE), (1061.0, ALICE)]),
    "one interval after the first that is expected by name": (
        ("anna", "ben"),
        [(0.0, FAKES), (100.0, FAKES), (1e6, FAKES), (1e6 + 1, (*FAKES, "anna")), (1e6 + 61, (*FAKES, "anna"))],
    ),
    "two intervals after the first, however many come one after the other": (
        None,
        [(10.0 * number, [f"worker-{n}" for n in range(number + 1)]) for number in range(13)],
    ),
}
"""Which workers are expected, and who is there when; at the last of these looks it opens."""


@pytest.mark.parametrize(("expected", "looks"), OPENINGS.values(), ids=OPENINGS)
def test_round_0_opens(expected: int | tuple[str, ...] | None, looks: list[tuple[float, Collection[str]]]) -> None:
    machine = CoordinatorMachine(Settings(expected_workers=expected, round_interval=60.0))
    decided = [machine.handle(look(now, frozenset(there), called=frozenset(there))) for now, there in looks]
    assert decided[:-1] == [None] * (len(looks) - 1)
    assert isinstance(decided[-1], WriteState)
    assert (decided[-1].key, decided[-1].finished, decided[-1].reason) == (RoundKey(0), False, "opened")


def test_a_round_that_all_have_left_stays_open_for_one_that_is_starting_however_long_that_takes() -> None:
    keeper = open_first(make_machine(expected=2))
    assert keeper.handle(look(61.0, NOBODY, submitted=ALICE, coming=BOB)) is None
    assert keeper.handle(look(1e6, NOBODY, submitted=ALICE, coming=BOB)) is None
    decided = there(keeper.handle(look(1e6 + 1, NOBODY, submitted=ALICE)))
    assert (decided.key, decided.reason) == (RoundKey(1), "all_submitted"), "it gave up: nobody is waited for"


# ── advancing ───────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("live", "submitted", "advances"),
    [
        ("alice bob", "alice", False),
        ("alice bob", "alice bob", True),
        ("alice", "alice", True),
        ("bob", "alice bob", True),
        ("alice bob carol", "alice bob", False),
    ],
    ids=["one is missing", "all", "one died", "one submitted and left", "one joined in mid round"],
)
def test_a_round_advances_as_soon_as_all_live_workers_have_submitted(live: str, submitted: str, advances: bool) -> None:
    machine = open_first(make_machine())
    write = machine.handle(look(1.0, frozenset(live.split()), frozenset(submitted.split())))
    assert write == (WriteState(RoundKey(1), finished=False, reason="all_submitted") if advances else None)


def test_a_round_advances_at_the_interval_and_says_who_was_missing() -> None:
    machine = open_first(make_machine(interval=60.0))
    assert machine.handle(look(59.9, submitted=ALICE)) is None
    assert machine.handle(look(60.0, submitted=ALICE)) == WriteState(
        RoundKey(1), finished=False, reason="interval", missing=BOB
    )


def test_who_has_no_say_closes_no_round_and_keeps_no_clock_going() -> None:
    """Strangers, where workers are expected by name: while those were cut off, fakes ran the clock to its end."""
    machine, fakes = open_first(make_machine(interval=60.0)), frozenset({"sybil-0", "sybil-1"})
    for now in (1.0, 59.0):
        assert machine.handle(look(now, live=fakes, submitted=fakes, without_a_say=fakes)) is None
    opened = [
        machine.handle(look(60.0 * n, fakes, fakes, submitted_before=fakes, without_a_say=fakes)) for n in range(1, 9)
    ]
    assert [write.key.round for write in opened if write] == [1, 2, 3]
    write = machine.handle(look(999.0, live=fakes, submitted=fakes | ALICE_BOB, without_a_say=fakes))
    assert write == WriteState(RoundKey(4), finished=False, reason="all_submitted")


def test_the_interval_counts_anew_when_somebody_comes_back() -> None:
    machine = open_first(make_machine(interval=60.0))
    machine.handle(look(1000.0, NOBODY))
    assert machine.handle(look(1001.0)) is None
    assert machine.handle(look(1060.9)) is None
    assert machine.handle(look(1061.0)) is not None


# ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("done", [5, 8])
def test_an_experiment_without_rounds_left_is_finished_at_once_and_never_turned_back(done: int) -> None:
    machine = CoordinatorMachine(Settings(max_rounds=5))
    assert machine.resume(RoundKey(done)) == WriteState(RoundKey(done), finished=True, reason="done")
    assert Keeper(machine).handle(look(0.0)) is None


@pytest.mark.parametrize("expected", [1, None])
def test_a_last_round_that_was_done_while_no_coordinator_was_there_is_closed(expected: int | None) -> None:
    keeper = Keeper(make_machine(rounds=5, expected=expected, at=RoundKey(4)))
    decided = [keeper.handle(look(now, NOBODY, submitted=ALICE_BOB)) for now in (0.0, 59.9, 60.0, 61.0)]
    assert [write and write.key.round for write in decided] == [None, None, 4, 5]
    assert keeper.machine.finished


# ── what the folder says ────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    "says",
    [
        None,
        FolderClock(RoundKey(0), finished=False),
        FolderClock(RoundKey(1), finished=True),
        FolderClock(RoundKey(1), finished=False, held=True),
    ],
    ids=["torn or gone", "behind", "finished", "held"],
)
def test_a_state_that_is_not_what_was_decided_is_written_again(says: FolderClock | None) -> None:
    machine = open_first(make_machine())
    machine.handle(look(1.0, submitted=ALICE_BOB))
    decision = machine.machine.handle(look(2.0, submitted=ALICE_BOB, clock=says))
    assert decision == WriteState(RoundKey(1), finished=False, reason="restored"), "before anything else is decided"


# ── workers that went on without it ─────────────────────────────────────────────────────────────────────────────────
def test_a_coordinator_that_starts_anew_goes_to_where_most_workers_are_at_once() -> None:
    machine = make_machine(rounds=9, expected=5, at=RoundKey(2))
    assert machine.handle(look(0.0, front=RoundKey(4))) == WriteState(RoundKey(4), finished=False, reason="caught_up")
    assert machine.handle(look(1.0, front=RoundKey(4), clock=FolderClock(RoundKey(4), finished=False))) is None


def test_a_front_beyond_the_last_round_ends_the_experiment() -> None:
    """Workers alone do as many rounds as the clock once announced; fewer may be asked for now."""
    machine = make_machine(rounds=6, at=RoundKey(5))
    ended = machine.handle(look(0.0, front=RoundKey(7)))
    assert ended == WriteState(RoundKey(6), finished=True, reason="caught_up")
    assert machine.handle(look(1.0, clock=FolderClock(RoundKey(6), finished=True))) is None


def submitted_in(**last_round_of: int) -> Any:
    """Workers without a coordinator do every round, up to their last."""
    return lambda key: frozenset(node for node, last in last_round_of.items() if key.round <= last)


def test_the_front_is_where_more_than_half_of_the_live_workers_have_come() -> None:
    live = frozenset({"alice", "bob", "carol", "dave"})
    submitted = submitted_in(alice=9, bob=6, carol=6, dave=2)
    assert majority_front(RoundKey(2), live, submitted) == RoundKey(6)
    assert majority_front(RoundKey(6), live, submitted) is None
    liar = submitted_in(alice=2, bob=2, liar=10**6)
    assert majority_front(RoundKey(2), frozenset({"alice", "bob", "liar"}), liar) is None
    gone = submitted_in(alice=2, ghost=9, spirit=9)
    assert majority_front(RoundKey(2), ALICE, gone) is majority_front(RoundKey(2), NOBODY, gone) is None


# ── two coordinators ────────────────────────────────────────────────────────────────────────────────────────────────
def test_the_one_with_the_younger_claim_steps_down_before_it_decides_anything() -> None:
    machine = open_first(make_machine()).machine
    assert machine.handle(look(1.0, submitted=ALICE_BOB, rival="older")) == StepDown("older")
    assert machine.key == RoundKey(0)


def test_a_coordinator_that_was_paused_follows_the_one_that_took_over() -> None:
    machine = open_first(make_machine(rounds=9, interval=60.0))
    further = FolderClock(RoundKey(4), finished=False)
    assert machine.handle(look(500.0, clock=further)) is None, "neither back nor on: this round has just been seen"
    assert machine.key == RoundKey(4)
    assert machine.handle(look(559.0, clock=further)) is None
    advanced = machine.handle(look(560.0, clock=further, submitted_before=ALICE_BOB))
    assert advanced
    assert advanced.key == RoundKey(5)


def test_a_clock_that_is_taken_up_far_from_all_rewards_stands_until_one_comes() -> None:
    """So does one that a stranger has put as far as rewards let it be believed."""
    machine = make_machine(rounds=9, interval=60.0)
    machine.resume(RoundKey(5))
    assert isinstance(machine.handle(look(0.0)), WriteState)
    clock = FolderClock(RoundKey(5), finished=False)
    assert [machine.handle(look(60.0 * n, clock=clock)) for n in range(1, 9)] == [None] * 8
    write = machine.handle(look(999.0, submitted=ALICE, clock=clock))
    assert write == WriteState(RoundKey(6), finished=False, reason="interval", missing=BOB)


def test_a_coordinator_follows_another_that_finished() -> None:
    machine = open_first(make_machine(rounds=4))
    assert machine.handle(look(1.0, clock=FolderClock(RoundKey(4), finished=True))) is None
    assert machine.machine.finished


def test_a_coordinator_that_waits_for_workers_goes_on_where_another_has_opened() -> None:
    machine = make_machine(rounds=9, expected=2)
    write = machine.handle(look(0.0, clock=FolderClock(RoundKey(3), finished=False)))
    assert write == WriteState(RoundKey(3), finished=False, reason="opened")


# ── workers that are there and do nothing ───────────────────────────────────────────────────────────────────────────
def liar_for(rounds: int) -> tuple[Keeper, float]:
    """A machine in whose last so many rounds bob was alive and never submitted; and when it is."""
    machine = open_first(make_machine(rounds=20, interval=60.0))
    now = 0.0
    for _ in range(rounds):
        now += 60.0
        assert machine.handle(look(now, submitted=ALICE)) is not None
    return machine, now


def test_a_live_worker_that_never_submits_holds_up_three_rounds_and_no_more() -> None:
    machine, now = liar_for(2)
    assert machine.handle(look(now + 1.0, submitted=ALICE)) is None
    machine, now = liar_for(3)
    write = machine.handle(look(now + 1.0, submitted=ALICE))
    assert write
    assert (write.reason, write.missing) == ("all_submitted", NOBODY), "nobody is missing who was waited for"
    assert write.not_awaited == BOB


def rounds_with_strangers(strangers_at: Callable[[float], frozenset[str]], rounds: int) -> float:
    """Seconds for so many rounds of a swarm of alice alone, who needs a second for each, by a clock of 60 s rounds."""
    machine, now, since = open_first(make_machine(rounds=rounds, interval=60.0)), 0.0, 0.0
    while not machine.machine.finished:
        now += 0.5
        done = ALICE if now - since >= 1.0 else NOBODY
        if machine.handle(look(now, ALICE | strangers_at(now), submitted=done)):
            since = now
    return now


STRANGERS = {
    "one that stays": lambda now: frozenset({"stranger"}),
    "one every five seconds": lambda now: frozenset({f"stranger-{int(now / 5)}"}),
    "one that comes and goes": lambda now: frozenset({"stranger"}) if now % 60 < 55 else frozenset(),
    "a thousand": lambda now: frozenset(f"stranger-{number}" for number in range(1000)),
}


@pytest.mark.parametrize("strangers_at", STRANGERS.values(), ids=STRANGERS)
def test_names_that_never_publish_cost_a_run_three_intervals_at_most_however_many_they_are(
    strangers_at: Callable[[float], frozenset[str]],
) -> None:
    """A new name every five seconds once left a swarm five percent of its pace."""
    rounds = 20 if strangers_at is STRANGERS["a thousand"] else 150
    alone = rounds_with_strangers(lambda now: NOBODY, rounds)
    assert rounds_with_strangers(strangers_at, rounds) <= alone + 3 * 60.0 + 10.0


def test_strangers_that_are_starting_for_ever_cost_no_more_where_an_expected_worker_is_missing() -> None:
    machine, now = open_first(make_machine(rounds=200, interval=60.0, expected=2)), 0.0
    while not machine.machine.finished and now < 1e5:
        now += 0.5
        strangers = frozenset({f"stranger-{int(now / 5)}"})
        machine.handle(look(now, ALICE, submitted=ALICE, coming=strangers))
    assert now <= 200 * 0.5 + 3 * 60.0 + 10.0


def test_names_that_beat_and_do_nothing_use_up_no_more_than_three_rounds() -> None:
    machine, now = open_first(make_machine(rounds=90, interval=60.0)), 0.0
    for _ in range(1000):
        now += 30.0
        machine.handle(look(now, frozenset({f"stranger-{int(now / 100)}"})))
    assert machine.key == RoundKey(3)
    assert machine.handle(look(now + 1.0, ALICE, submitted=ALICE)), "whoever does a round moves it on"


@pytest.mark.parametrize("late", ["submitted", "submitted_before"])
def test_one_that_submits_again_is_waited_for_again(late: str) -> None:
    machine, now = liar_for(3)
    assert machine.handle(look(now + 1.0, **{late: BOB})) is None
    assert machine.handle(look(now + 2.0, submitted=ALICE)) is None


# ── whatever it sees ────────────────────────────────────────────────────────────────────────────────────────────────
nodes = st.frozensets(st.sampled_from(["alice", "bob", "carol"]))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 30), nodes, nodes), max_size=60),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 3),
    st.builds(RoundKey, st.integers(0, 5), st.integers(0, 2)),
)
def test_the_clock_moves_by_single_steps_forwards_and_never_without_a_reason(
    looks: list[tuple[float, frozenset[str], frozenset[str]]], rounds: int, stages: int, expected: int, at: RoundKey
) -> None:
    asked = Settings(max_rounds=rounds, max_stages=stages, round_interval=20.0, expected_workers=expected)
    machine = CoordinatorMachine(asked)
    machine.resume(at)
    keeper = Keeper(machine)
    key: RoundKey | None = None
    now, moved_at = 0.0, 0.0
    for pause, live, submitted in looks:
        now += pause
        write = keeper.handle(look(now, live, submitted))
        if write is None:
            continue
        assert live or submitted, "an empty room burns no rounds"
        assert not write.missing or now - moved_at >= 20.0, "nobody is left behind before the interval is over"
        assert write.missing == (live - submitted if key else NOBODY)
        following = _successor(key, rounds, stages) if key else at
        assert write.key == following
        assert write.finished == (following.round >= rounds)
        key, moved_at = write.key, now


def _successor(key: RoundKey, rounds: int, stages: int) -> RoundKey:
    return RoundKey(key.round, key.stage + 1) if key.stage + 1 < stages else RoundKey(key.round + 1)
