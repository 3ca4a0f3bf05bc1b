"""What the round clock decides."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm.node.coordinator_machine import CoordinatorMachine, Look, WriteState
from swarm.types import RoundKey

ALICE_BOB = frozenset({"alice", "bob"})
NOBODY: frozenset[str] = frozenset()


def make_machine(
    *, rounds: int = 5, stages: int = 1, interval: float = 60.0, expected: int = 1, at: RoundKey | None = None
) -> CoordinatorMachine:
    """A machine that resumes at a round."""
    machine = CoordinatorMachine(max_rounds=rounds, max_stages=stages, interval=interval, expected_workers=expected)
    assert machine.resume(at or RoundKey(0)) is None
    return machine


def look(now: float, live: frozenset[str] = ALICE_BOB, submitted: frozenset[str] = NOBODY) -> Look:
    return Look(now, live, submitted)


def open_first(machine: CoordinatorMachine, now: float = 0.0) -> CoordinatorMachine:
    assert machine.handle(look(now)) is not None
    return machine


# ── opening ─────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_the_first_round_opens_when_the_expected_workers_are_there() -> None:
    machine = make_machine(expected=2)
    assert machine.handle(look(0.0, frozenset({"alice"}))) is None
    assert machine.handle(look(1.0)) == WriteState(RoundKey(0), finished=False, reason="opened")


def test_the_first_round_opens_one_interval_after_the_first_worker_came() -> None:
    machine = make_machine(expected=3, interval=60.0)
    assert machine.handle(look(1000.0, NOBODY)) is None
    assert machine.handle(look(1001.0, frozenset({"alice"}))) is None
    assert machine.handle(look(1060.9, frozenset({"alice"}))) is None
    assert machine.handle(look(1061.0, frozenset({"alice"}))) is not None


def test_no_round_opens_for_nobody() -> None:
    machine = make_machine(expected=1)
    for now in (0.0, 100.0, 1e6):
        assert machine.handle(look(now, NOBODY)) is None


def test_a_resumed_experiment_waits_for_the_expected_workers_too() -> None:
    machine = make_machine(expected=2, at=RoundKey(3))
    assert machine.handle(look(0.0, frozenset({"alice"}))) is None
    assert machine.handle(look(1.0)) == WriteState(RoundKey(3), finished=False, reason="opened")


@pytest.mark.parametrize("round_", [0, 1, 7, 8])
def test_a_clock_resumes_at_the_round_it_is_given(round_: int) -> None:
    machine = make_machine(rounds=9, at=RoundKey(round_))
    write = machine.handle(look(0.0))
    assert write is not None
    assert write.key == RoundKey(round_)


# ── advancing ───────────────────────────────────────────────────────────────────────────────────────────────────────
def test_a_round_advances_as_soon_as_all_live_workers_have_submitted() -> None:
    machine = open_first(make_machine())
    assert machine.handle(look(1.0, submitted=frozenset({"alice"}))) is None
    assert machine.handle(look(2.0, submitted=ALICE_BOB)) == WriteState(
        RoundKey(1), finished=False, reason="all_submitted"
    )


def test_a_round_advances_at_the_interval_and_says_who_was_missing() -> None:
    machine = open_first(make_machine(interval=60.0))
    assert machine.handle(look(59.9, submitted=frozenset({"alice"}))) is None
    assert machine.handle(look(60.0, submitted=frozenset({"alice"}))) == WriteState(
        RoundKey(1), finished=False, reason="interval", missing=frozenset({"bob"})
    )


def test_a_round_advances_at_the_interval_although_nobody_submitted() -> None:
    machine = open_first(make_machine(interval=60.0))
    assert machine.handle(look(60.0)) == WriteState(RoundKey(1), finished=False, reason="interval", missing=ALICE_BOB)


def test_a_worker_that_died_is_not_waited_for() -> None:
    machine = open_first(make_machine())
    write = machine.handle(look(1.0, live=frozenset({"alice"}), submitted=frozenset({"alice"})))
    assert write == WriteState(RoundKey(1), finished=False, reason="all_submitted")


def test_a_worker_that_submitted_and_left_counts() -> None:
    machine = open_first(make_machine())
    write = machine.handle(look(1.0, live=frozenset({"bob"}), submitted=ALICE_BOB))
    assert write == WriteState(RoundKey(1), finished=False, reason="all_submitted")


def test_a_worker_that_joined_in_mid_round_is_waited_for() -> None:
    machine = open_first(make_machine())
    assert machine.handle(look(1.0, live=ALICE_BOB | {"carol"}, submitted=ALICE_BOB)) is None


def test_each_look_advances_by_one_round_at_most() -> None:
    """Rounds once advanced twice, so that only even folders existed."""
    machine = open_first(make_machine())
    first = machine.handle(look(1.0, submitted=ALICE_BOB))
    again = machine.handle(look(1.0))
    assert (first and first.key, again) == (RoundKey(1), None)


def test_the_interval_is_counted_from_each_rounds_own_opening() -> None:
    machine = open_first(make_machine(interval=60.0))
    machine.handle(look(50.0, submitted=ALICE_BOB))
    assert machine.handle(look(109.9)) is None
    write = machine.handle(look(110.0))
    assert write is not None
    assert write.key == RoundKey(2)


def test_the_clock_stands_still_while_nobody_is_there() -> None:
    machine = open_first(make_machine(interval=60.0))
    for now in (61.0, 1000.0, 1e6):
        assert machine.handle(look(now, NOBODY)) is None
    assert machine.key == RoundKey(0)


def test_the_interval_counts_anew_when_somebody_comes_back() -> None:
    machine = open_first(make_machine(interval=60.0))
    machine.handle(look(1000.0, NOBODY))
    assert machine.handle(look(1001.0)) is None
    assert machine.handle(look(1060.9)) is None
    assert machine.handle(look(1061.0)) is not None


def test_stages_come_in_order_within_each_round() -> None:
    machine = make_machine(rounds=2, stages=2)
    writes = [machine.handle(look(0.0)), *(machine.handle(look(now, submitted=ALICE_BOB)) for now in range(1, 5))]
    assert [write.key for write in writes if write] == [
        RoundKey(0, 0),
        RoundKey(0, 1),
        RoundKey(1, 0),
        RoundKey(1, 1),
        RoundKey(2, 0),
    ]
    assert [write.finished for write in writes if write] == [False, False, False, False, True]


def test_a_stage_that_is_resumed_is_not_begun_at_its_rounds_first() -> None:
    machine = make_machine(rounds=2, stages=3, at=RoundKey(1, 1))
    open_first(machine)
    write = machine.handle(look(1.0, submitted=ALICE_BOB))
    assert write is not None
    assert write.key == RoundKey(1, 2)


# ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_the_last_round_ends_the_experiment() -> None:
    machine = open_first(make_machine(rounds=1))
    write = machine.handle(look(1.0, submitted=ALICE_BOB))
    assert write == WriteState(RoundKey(1), finished=True, reason="all_submitted")
    assert machine.finished
    assert machine.handle(look(2.0, submitted=ALICE_BOB)) is None


def test_an_experiment_without_rounds_left_is_finished_at_once() -> None:
    machine = CoordinatorMachine(max_rounds=5, max_stages=1, interval=60.0, expected_workers=1)
    assert machine.resume(RoundKey(5)) == WriteState(RoundKey(5), finished=True, reason="done")
    assert machine.handle(look(0.0)) is None


def test_fewer_rounds_than_were_done_do_not_turn_the_clock_back() -> None:
    machine = CoordinatorMachine(max_rounds=5, max_stages=1, interval=60.0, expected_workers=1)
    assert machine.resume(RoundKey(8)) == WriteState(RoundKey(8), finished=True, reason="done")


def test_more_rounds_reopen_a_finished_experiment() -> None:
    machine = make_machine(rounds=9, at=RoundKey(5))
    assert machine.handle(look(0.0)) == WriteState(RoundKey(5), finished=False, reason="opened")


# ── whatever it sees ────────────────────────────────────────────────────────────────────────────────────────────────
nodes = st.frozensets(st.sampled_from(["alice", "bob", "carol"]))


@settings(max_examples=200, deadline=None)
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
    machine = CoordinatorMachine(max_rounds=rounds, max_stages=stages, interval=20.0, expected_workers=expected)
    machine.resume(at)
    key: RoundKey | None = None
    now, moved_at = 0.0, 0.0
    for pause, live, submitted in looks:
        now += pause
        write = machine.handle(Look(now, live, submitted))
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
