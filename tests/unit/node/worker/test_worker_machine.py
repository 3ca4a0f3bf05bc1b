"""What a worker decides."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm.node.sharing.examination import FileNews
from swarm.node.worker import events as m
from swarm.node.worker.worker_machine import LATE_GRACE, GatherPace
from swarm.types import RoundKey
from tests.unit.node.checked_worker import CheckedWorker, checked_worker

PEERS = frozenset({"bob", "carol"})
R0, R1, R5 = RoundKey(0), RoundKey(1), RoundKey(5)
AFTER_PUBLISHED = [m.Phase.PUBLISHING, m.Phase.GATHERING, m.Phase.TRAINING, m.Phase.SUBMITTING]


def clock(round_: int, *, finished: bool = False, now: float = 0.0, stage: int = 0, max_rounds: int = 0) -> m.ClockSeen:
    return m.ClockSeen(RoundKey(round_, stage), finished, now, max_rounds=max_rounds)


def trains(
    key: RoundKey, heard: frozenset[str], awaited: frozenset[str], *, timed_out: bool = False, late: bool = False
) -> m.Train:
    return m.Train(key, heard, awaited, timed_out, late)


def arrive(worker: CheckedWorker, peer: str, now: float, key: RoundKey = R0) -> list[m.Instruction]:
    """A peer's file for a round is there."""
    return worker.handle(m.PeersNews(FileNews.THERE, key, frozenset({peer}), now))


def drive(worker: CheckedWorker, until: m.Phase, now: float = 0.0) -> None:
    """Answer every instruction until the machine is in a phase."""
    while worker.machine.phase is not until:
        assert worker.pending, f"it stands still in {worker.machine.phase}"
        worker.answer(worker.pending[0], now)


def make_worker(
    phase: m.Phase = m.Phase.IDLE, *, live: frozenset[str] = PEERS, now: float = 0.0, **settings: Any
) -> CheckedWorker:
    """A worker with two live peers in some phase of round 0."""
    worker = checked_worker(**settings)
    if phase is m.Phase.LOADING:
        return worker
    worker.handle(m.Ready(R0))
    worker.handle(m.PeersLive(live, now))
    if phase is m.Phase.IDLE:
        return worker
    worker.handle(clock(0, now=now))
    if phase in (m.Phase.TRAINING, m.Phase.SUBMITTING):
        drive(worker, m.Phase.GATHERING, now)
        for peer in sorted(live):
            arrive(worker, peer, now)
    drive(worker, phase, now)
    return worker


def run_round(worker: CheckedWorker, round_: int, now: float = 0.0) -> None:
    worker.handle(clock(round_, now=now))
    drive(worker, m.Phase.GATHERING, now)
    for peer in sorted(PEERS):
        arrive(worker, peer, now, RoundKey(round_))
    drive(worker, m.Phase.IDLE, now)


# ── beginning ───────────────────────────────────────────────────────────────────────────────────────────────────────
def test_a_round_goes_through_all_its_steps_in_order() -> None:
    worker = make_worker(external_groups=0)
    assert worker.handle(clock(0)) == [m.Generate(R0, 0)]
    assert worker.handle(m.StepDone(m.Phase.GENERATING, R0)) == [m.Step(m.Phase.SCORING, R0)]
    assert worker.handle(m.StepDone(m.Phase.SCORING, R0)) == [m.Step(m.Phase.PUBLISHING, R0), m.BeginUpdate(R0)]
    train = trains(R0, frozenset(), frozenset())
    assert worker.handle(m.StepDone(m.Phase.PUBLISHING, R0, 1.0)) == [train]
    assert worker.handle(m.StepDone(m.Phase.TRAINING, R0)) == [m.Step(m.Phase.SUBMITTING, R0)]
    assert worker.handle(m.StepDone(m.Phase.SUBMITTING, R0)) == []
    assert worker.machine.phase is m.Phase.IDLE
    assert worker.machine.rounds_done == 1


def test_with_staleness_the_next_round_is_generated_before_it_is_open() -> None:
    worker = checked_worker(external_groups=0, staleness=1)
    worker.handle(m.Ready(R0))
    worker.handle(clock(0, max_rounds=4))
    assert worker.handle(m.StepDone(m.Phase.GENERATING, R0)) == [m.Step(m.Phase.SCORING, R0), m.GenerateAhead(R1)]
    drive(worker, m.Phase.IDLE)
    assert worker.ahead == [R1, RoundKey(2)]  # the second as soon as the executor was free, one update behind
    for round_ in (1, 2, 3):
        worker.handle(clock(round_, max_rounds=4))
        drive(worker, m.Phase.IDLE)
    assert worker.ahead == [R1, RoundKey(2), RoundKey(3)]  # and none for a round that never comes


def test_after_a_skip_generating_ahead_begins_anew() -> None:
    worker = checked_worker(external_groups=0, staleness=1)
    worker.handle(m.Ready(R0))
    worker.handle(clock(0))
    drive(worker, m.Phase.IDLE)
    assert worker.handle(clock(5)) == [m.Generate(R5, 4)]
    assert worker.handle(m.StepDone(m.Phase.GENERATING, R5)) == [
        m.Step(m.Phase.SCORING, R5),
        m.GenerateAhead(RoundKey(6)),
    ]


def test_a_slow_node_finishes_the_round_it_began_and_then_skips_ahead() -> None:
    worker = make_worker(m.Phase.GENERATING)
    assert worker.handle(clock(5)) == []
    drive(worker, m.Phase.GATHERING)
    worker.handle(m.Tick(100.0))
    assert worker.trained == [R0]
    worker.answer(worker.pending[0], 100.0)
    assert worker.answer(worker.pending[0], 100.0) == [m.Generate(R5, 4)]


# ── gathering ───────────────────────────────────────────────────────────────────────────────────────────────────────
def test_gathering_ends_when_the_last_live_peer_arrives() -> None:
    worker = make_worker(m.Phase.GATHERING)
    assert arrive(worker, "bob", 0.1) == []
    assert arrive(worker, "carol", 0.2) == [trains(R0, PEERS, PEERS)]
    assert worker.machine.wake_at is None


def test_gathering_ends_at_its_deadline_without_the_peers_that_are_missing() -> None:
    worker = make_worker(m.Phase.GATHERING, round_interval=10.0)
    arrive(worker, "bob", 0.1)
    assert worker.machine.wake_at == 5.0
    assert worker.handle(m.Tick(4.99)) == []
    assert worker.handle(m.Tick(5.0)) == [trains(R0, frozenset({"bob"}), PEERS, timed_out=True)]


def test_a_stale_state_file_that_is_seen_after_the_deadline_ends_the_gathering_as_any_look_does() -> None:
    """After a pause the first that is seen may be an old copy; the deadline is over all the same."""
    worker = checked_worker(external_groups=4, round_interval=10.0)
    worker.handle(m.Ready(R0))
    worker.handle(m.PeersLive(PEERS, 0.0))
    worker.handle(clock(1))
    drive(worker, m.Phase.GATHERING)
    assert [type(instruction) for instruction in worker.handle(clock(0, now=60.0))] == [m.Train]


def test_a_peer_that_died_is_not_waited_for_any_longer() -> None:
    worker = make_worker(m.Phase.GATHERING)
    arrive(worker, "bob", 0.1)
    [train] = worker.handle(m.PeersLive(frozenset({"bob"}), 0.2))
    assert isinstance(train, m.Train)
    assert not train.timed_out


def test_a_peer_that_joined_in_mid_round_is_waited_for() -> None:
    worker = make_worker(m.Phase.GATHERING)
    worker.handle(m.PeersLive(PEERS | {"dave"}, 0.1))
    for peer in PEERS:
        assert arrive(worker, peer, 0.2) == []
    assert len(arrive(worker, "dave", 0.3)) == 1


def test_a_node_whose_round_has_closed_waits_a_moment_only() -> None:
    worker = make_worker(m.Phase.GATHERING, round_interval=60.0)
    assert worker.handle(clock(1, now=2.0)) == []
    assert worker.machine.wake_at == 2.0 + LATE_GRACE
    assert worker.handle(clock(2, now=2.5)) == [], "a second step of the clock does not begin the moment anew"
    assert worker.machine.wake_at == 2.0 + LATE_GRACE
    [train] = worker.handle(m.Tick(2.0 + LATE_GRACE))
    assert train == trains(R0, frozenset(), PEERS, timed_out=True, late=True)


def test_the_deadline_follows_the_swarm() -> None:
    worker = make_worker(round_interval=60.0)
    run_round(worker, 0, now=0.0)
    worker.handle(clock(1, now=10.0))
    drive(worker, m.Phase.GATHERING, now=10.0)
    arrive(worker, "bob", 10.1, R1)
    assert worker.machine.wake_at == pytest.approx(13.0)
    worker.handle(m.Tick(13.0))
    drive(worker, m.Phase.IDLE)
    worker.handle(clock(2, now=20.0))
    drive(worker, m.Phase.GATHERING, now=20.0)
    arrive(worker, "bob", 20.1, RoundKey(2))
    assert worker.machine.wake_at == pytest.approx(26.5), "after a deadline that came too early the next is later"


def test_while_nobody_at_all_is_there_the_deadline_is_the_longest() -> None:
    """All are slow: the machine is, or the way to them. One quick round before says nothing about that."""
    worker = make_worker(round_interval=60.0)
    run_round(worker, 0, now=0.0)
    worker.handle(clock(1, now=10.0))
    drive(worker, m.Phase.GATHERING, now=10.0)
    assert worker.machine.wake_at == pytest.approx(40.0)
    assert worker.handle(m.Tick(25.0)) == []
    arrive(worker, "bob", 26.0, R1)
    assert worker.trained[-1] == R1, "the first of them ends what the others have had"


# ── ending ──────────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("rounds", "then", "reason"),
    [
        (3, m.Ready(R0), m.Finish("missed", rounds_missed=3)),
        (3, m.Ready(RoundKey(2)), m.Finish("missed", rounds_missed=1)),
        (3, m.Ready(RoundKey(3)), m.Finish("finished")),
        (0, m.Ready(R0), m.Finish("finished")),
        (3, m.Stop(1.0), m.Finish("finished")),
    ],
    ids=["all", "what no earlier life did", "none", "there were none", "stopped before it knew"],
)
def test_who_comes_when_all_rounds_are_over_has_missed_those_that_no_earlier_life_did(
    rounds: int, then: m.Event, reason: m.Finish
) -> None:
    """As a worker that Slurm queued again after its node was lost."""
    worker = make_worker(m.Phase.LOADING)
    worker.handle(clock(rounds, finished=True))
    assert worker.handle(then) == [reason]


def test_a_finished_experiment_that_was_reopened_goes_on() -> None:
    worker = make_worker(m.Phase.LOADING)
    worker.handle(clock(5, finished=True))
    worker.handle(clock(5, finished=False))
    assert worker.handle(m.Ready(R5)) == [m.Generate(R5, 0)]


def test_a_stop_before_anything_was_learned_just_ends() -> None:
    assert make_worker().handle(m.Stop(1.0)) == [m.Finish("stopped")]


@pytest.mark.parametrize("phase", AFTER_PUBLISHED)
def test_a_stop_after_publishing_finishes_the_round(phase: m.Phase) -> None:
    worker = make_worker(phase)
    worker.handle(m.Stop(0.0))
    drive(worker, m.Phase.DONE)
    assert worker.trained == [R0]
    assert worker.rounds_saved == [1]
    assert worker.finish == m.Finish("stopped")


# ── checkpoints ─────────────────────────────────────────────────────────────────────────────────────────────────────
def test_checkpoints_come_at_the_interval_and_at_the_end_once_each() -> None:
    worker = make_worker(checkpoint_interval=2)
    for round_ in range(6):
        run_round(worker, round_)
    worker.handle(clock(6, finished=True))
    drive(worker, m.Phase.DONE)
    assert worker.rounds_saved == [2, 4, 6]


def test_a_node_that_skips_rounds_saves_as_often_as_one_that_does_not() -> None:
    worker = make_worker(checkpoint_interval=10, live=frozenset())
    for number in range(0, 100, 2):
        worker.handle(clock(number))
        drive(worker, m.Phase.IDLE)
    assert worker.rounds_saved == [11, 21, 31, 41, 51, 61, 71, 81, 91]


def test_a_checkpoint_that_failed_on_the_way_is_asked_for_again_at_the_end() -> None:
    worker = make_worker(m.Phase.SUBMITTING, checkpoint_interval=1)
    assert worker.handle(m.StepDone(m.Phase.SUBMITTING, R0)) == [m.Save(R1)]
    assert list(worker.machine.handle(m.SaveFailed(R1))) == []
    assert list(worker.machine.handle(clock(1, finished=True))) == [m.Save(R1)]


def test_the_gathering_follows_the_interval_of_the_coordinator() -> None:
    worker = make_worker(m.Phase.PUBLISHING, round_interval=10.0)
    worker.handle(m.ClockSeen(R0, False, 0.0, interval=600.0))
    worker.handle(m.StepDone(m.Phase.PUBLISHING, R0, 0.0))
    assert worker.machine.wake_at == 300.0


def test_leaving_waits_for_a_checkpoint_that_is_still_being_written() -> None:
    worker = make_worker(m.Phase.SUBMITTING, checkpoint_interval=1)
    assert worker.handle(m.StepDone(m.Phase.SUBMITTING, R0)) == [m.Save(R1)]
    assert worker.handle(m.Stop(1.0)) == [], "neither a second one nor the end"
    assert worker.machine.phase is m.Phase.SAVING
    assert worker.handle(m.Saved(R1)) == [m.Finish("stopped")]


def test_the_next_round_does_not_wait_for_a_checkpoint() -> None:
    worker = make_worker(m.Phase.SUBMITTING, checkpoint_interval=1)
    worker.handle(clock(1))
    assert worker.handle(m.StepDone(m.Phase.SUBMITTING, R0)) == [m.Save(R1), m.Generate(R1, 0)]


def test_a_slow_older_checkpoint_does_not_end_the_wait_for_the_last() -> None:
    worker = make_worker(m.Phase.SUBMITTING, checkpoint_interval=1)
    worker.handle(m.StepDone(m.Phase.SUBMITTING, R0))
    worker.handle(clock(1))
    for _ in range(3):
        worker.answer(next(step for step in worker.pending if not isinstance(step, m.Save)), 1.0)
    worker.handle(m.Stop(1.0))
    for _ in range(2):
        worker.answer(next(step for step in worker.pending if not isinstance(step, m.Save)), 1.0)
    assert worker.handle(m.Saved(R1)) == []
    assert worker.handle(m.Saved(RoundKey(2))) == [m.Finish("stopped")]


@pytest.mark.parametrize("unsaved", [False, True])
def test_a_node_that_was_stopped_while_it_loaded_begins_nothing_when_it_is_ready(unsaved: bool) -> None:
    worker = make_worker(m.Phase.LOADING)
    worker.handle(clock(3))
    assert worker.handle(m.Stop(0.0)) == [m.Finish("stopped")]
    assert worker.handle(m.Ready(RoundKey(3), unsaved)) == []


def test_a_last_checkpoint_that_failed_is_written_again() -> None:
    worker = make_worker(m.Phase.SUBMITTING)
    worker.handle(m.StepDone(m.Phase.SUBMITTING, R0))
    worker.handle(clock(1, finished=True))
    assert worker.handle(m.SaveFailed(R1)) == [m.Save(R1)]


# ── without a coordinator ───────────────────────────────────────────────────────────────────────────────────────────
def make_alone(*, rounds: int = 3, expected: int = 1, window: int = 1, live: frozenset[str] = PEERS) -> CheckedWorker:
    """A worker that has no coordinator from the start."""
    worker = checked_worker(
        own_clock=True, max_rounds=rounds, expected_workers=expected, round_interval=10.0, window=window
    )
    worker.handle(m.PeersLive(live, 0.0))
    return worker


def test_on_its_own_clock_a_node_does_one_round_after_the_other_and_is_finished() -> None:
    worker = make_alone(rounds=3, live=frozenset())
    assert worker.handle(m.Ready(R0)) == [m.Generate(R0, 0)]
    drive(worker, m.Phase.DONE)
    assert worker.trained == [R0, R1, RoundKey(2)]
    assert worker.finish == m.Finish("finished")


def test_on_its_own_clock_a_node_believes_no_state_file_and_no_coordinator() -> None:
    worker = make_alone(rounds=9)
    worker.handle(m.Ready(R0))
    assert worker.handle(clock(5, finished=True)) == []
    assert worker.handle(m.CoordinatorSeen(True, 1.0)) == []
    assert worker.machine.on_own_clock


@pytest.mark.parametrize("expected", [4, ("bob", "dave")], ids=["by number", "by name"])
def test_nodes_on_their_own_clocks_begin_together(expected: int | tuple[str, ...]) -> None:
    worker = checked_worker(own_clock=True, max_rounds=3, expected_workers=expected)
    worker.handle(m.PeersLive(frozenset(), 0.0, called=frozenset({"alice"})))
    assert worker.handle(m.Ready(R0)) == []
    assert worker.handle(m.PeersLive(PEERS, 2.0, called=PEERS | {"alice"})) == []
    assert worker.handle(m.PeersLive(PEERS | {"dave"}, 3.0, called=PEERS | {"alice", "dave"})) == [m.Generate(R0, 0)]
    assert worker.machine.wake_at is None


def test_nobody_who_does_not_come_is_waited_for_longer_than_an_interval() -> None:
    worker = make_alone(expected=4)
    worker.handle(m.Ready(R0))
    assert worker.machine.wake_at == 10.0
    assert worker.handle(m.Tick(9.9)) == []
    assert worker.handle(m.Tick(10.0)) == [m.Generate(R0, 0)]


def make_settling(*, live: frozenset[str] = frozenset(), **settings: Any) -> CheckedWorker:
    """One that has no coordinator, and was not told of how many it is one; ready."""
    worker = checked_worker(own_clock=True, max_rounds=3, window=1, **settings)
    worker.handle(m.PeersLive(live, 0.0))
    return worker


def test_nodes_on_their_own_clocks_settle_as_workers_of_a_coordinator_do() -> None:
    worker = make_settling(round_interval=60.0)
    assert worker.handle(m.Ready(R0)) == []
    assert worker.machine.wake_at == 15.0
    assert worker.handle(m.PeersLive(frozenset(), 12.0, coming=frozenset({"bob"}))) == []
    assert worker.handle(m.PeersLive(frozenset({"bob"}), 26.0)) == []
    assert worker.handle(m.Tick(27.0)) == [m.Generate(R0, 0)]


def test_who_comes_to_peers_at_work_or_shares_nothing_begins_at_once() -> None:
    worker = make_settling()
    worker.handle(m.PeersLive(PEERS, 1.0, publishing=PEERS))
    assert worker.handle(m.Ready(R0)) == [m.Generate(R0, 0)]
    assert make_settling(external_groups=0).handle(m.Ready(R0)) == [m.Generate(R0, 0)]


def test_peers_ahead_or_behind_within_the_window_are_waited_for_no_longer() -> None:
    worker = make_alone(rounds=9, window=1)
    worker.handle(m.Ready(R5))
    arrive(worker, "bob", 0.5, RoundKey(4))
    drive(worker, m.Phase.GATHERING, 1.0)
    [train] = arrive(worker, "carol", 2.0, RoundKey(6))
    assert isinstance(train, m.Train)
    assert not train.timed_out


# ── a coordinator that dies, and one that comes back ────────────────────────────────────────────────────────────────
def test_a_node_whose_coordinator_died_goes_on_by_itself_after_a_while() -> None:
    worker = make_worker(patience=20.0)
    run_round(worker, 0)
    worker.handle(m.CoordinatorSeen(False, 5.0))
    assert worker.handle(m.CoordinatorSeen(False, 24.9)) == []
    assert worker.handle(m.CoordinatorSeen(False, 26.0)) == [m.Generate(R1, 0)]
    assert worker.machine.on_own_clock


def test_a_node_that_stood_still_looks_again_before_it_goes_on_alone() -> None:
    """It was scheduled again after its patience had ended, and what it knew of its coordinator was as old as that."""
    worker = make_worker(patience=20.0)
    run_round(worker, 0)
    worker.handle(m.CoordinatorSeen(False, 5.0))
    assert worker.handle(m.Tick(26.0)) == []
    assert worker.handle(m.PeersLive(PEERS, 26.0)) == []
    assert worker.handle(clock(1, now=26.0)) == [m.Generate(R1, 0)]
    assert not worker.machine.on_own_clock


def test_a_coordinator_that_comes_late_is_given_as_much_time_as_any() -> None:
    """Its clock is seen before it is known to be alive: of a node whose time is wrong, one heartbeat shows nothing."""
    worker = make_worker(patience=20.0, live=frozenset())
    worker.handle(m.CoordinatorSeen(False, 0.0))
    worker.handle(m.CoordinatorSeen(False, 100.0))
    assert worker.handle(clock(0, now=101.0)) == [m.Generate(R0, 0)]
    assert not worker.machine.on_own_clock
    drive(worker, m.Phase.IDLE, 101.0)
    assert worker.handle(m.CoordinatorSeen(False, 102.0)) == []
    assert worker.handle(m.CoordinatorSeen(False, 121.9)) == []
    assert worker.handle(m.CoordinatorSeen(False, 122.0)) == [m.Generate(R1, 0)]


def test_who_sees_that_others_have_begun_goes_on_alone_without_ever_having_seen_a_clock() -> None:
    """The state file is torn, and nobody is left to fix it."""
    worker = checked_worker(patience=20.0, max_rounds=6)
    worker.handle(m.PeersLive(PEERS, 0.0))
    worker.handle(m.CoordinatorSeen(False, 0.0))
    worker.handle(m.Ready(R0))
    assert worker.handle(m.CoordinatorSeen(False, 99.0)) == [], "nobody has begun: a coordinator is yet to come"
    worker.handle(m.CoordinatorSeen(True, 100.0))
    worker.handle(m.PeersLive(PEERS, 101.0, publishing=frozenset({"bob"})))
    worker.handle(m.PeersLive(PEERS, 102.0))
    assert worker.handle(m.CoordinatorSeen(False, 110.0)) == []
    assert worker.handle(m.CoordinatorSeen(False, 130.0)) == [m.Generate(R0, 0)]


def test_a_node_that_has_done_rounds_goes_on_although_it_finds_neither_state_nor_coordinator() -> None:
    """A coordinator that died for good, and a state file that somebody else wrote over."""
    worker = checked_worker(patience=20.0, max_rounds=6)
    worker.handle(m.Ready(R5))
    worker.handle(m.CoordinatorSeen(False, 0.0))
    assert worker.handle(m.CoordinatorSeen(False, 20.0)) == [m.Generate(R5, 0)]
    drive(worker, m.Phase.DONE, 20.0)
    assert worker.finish == m.Finish("finished")


def test_a_node_that_leaves_is_not_woken_any_more() -> None:
    """Patience once ended while the last checkpoint was being written, and the node span until it was."""
    worker = make_worker(patience=20.0)
    run_round(worker, 0)
    worker.handle(m.CoordinatorSeen(False, 5.0))
    assert worker.handle(m.Stop(6.0)) == [m.Save(R1)]
    assert worker.machine.wake_at is None
    assert worker.handle(m.CoordinatorSeen(False, 30.0)) == []
    assert worker.machine.wake_at is None


# ── a peer that never comes ─────────────────────────────────────────────────────────────────────────────────────────
def absent_for(rounds: int) -> CheckedWorker:
    """A worker whose live peer carol has published nothing for so many rounds, gathering in the next."""
    worker = make_worker(round_interval=20.0)
    for round_ in range(rounds + 1):
        now = 100.0 * round_
        worker.handle(clock(round_, now=now))
        drive(worker, m.Phase.GATHERING, now)
        if round_ < rounds:
            worker.handle(m.PeersNews(FileNews.VALID, R0, frozenset({"bob"}), 0.0))
            arrive(worker, "bob", now, RoundKey(round_))
            worker.handle(m.Tick(now + 50.0))
            drive(worker, m.Phase.IDLE, now + 50.0)
    return worker


def test_a_live_peer_that_never_publishes_is_waited_for_three_times() -> None:
    key = RoundKey(2)
    assert arrive(absent_for(2), "bob", 201.0, key) == []
    [train] = arrive(absent_for(3), "bob", 301.0, RoundKey(3))
    assert train == trains(RoundKey(3), frozenset({"bob"}), frozenset({"bob"}))


@pytest.mark.parametrize("refused", [True, False])
def test_a_file_of_which_nothing_is_valid_earns_nobody_that_others_wait(refused: bool) -> None:
    worker = absent_for(3)
    worker.handle(m.PeersLive(PEERS, 300.5, frozenset({"carol"})))
    if refused:
        arrive(worker, "carol", 300.5, RoundKey(2))
    assert arrive(worker, "bob", 301.0, RoundKey(3)) != []


# ── whatever happens ────────────────────────────────────────────────────────────────────────────────────────────────
keys = st.builds(RoundKey, st.integers(0, 6), st.integers(0, 1))
names = st.sampled_from(["bob", "carol", "dave"])
times = st.floats(0, 100)
noise = st.one_of(
    st.builds(m.ClockSeen, keys, st.booleans(), times),
    st.builds(m.StepDone, st.sampled_from(m.Phase), keys, times),
    st.builds(m.PeersNews, st.sampled_from(FileNews), keys, st.frozensets(names), times),
    st.builds(m.PeersLive, st.frozensets(names), times, st.frozensets(names)),
    st.builds(m.CoordinatorSeen, st.booleans(), times),
    st.builds(m.Drawn, keys, st.booleans(), times),
    st.builds(m.Tick, times),
)
deeds = st.one_of(st.just("answer"), st.just("answer"), noise, st.just(m.Ready(R0)), st.just(m.Stop(0.0)))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(deeds, max_size=80),
    st.integers(0, 3),
    st.fixed_dictionaries(
        {
            "external_groups": st.integers(0, 2),
            "checkpoint_interval": st.integers(0, 3),
            "staleness": st.integers(0, 1),
            "own_clock": st.booleans(),
            "max_rounds": st.integers(0, 4),
            "max_stages": st.integers(1, 3),
            "expected_workers": st.integers(1, 3),
            "patience": st.sampled_from([5.0, math.inf]),
            "window": st.integers(0, 2),
        }
    ),
)
def test_whatever_order_events_come_in_a_worker_does_nothing_twice_and_ends_when_told(
    events: list[m.Event | str], first_round: int, kind: dict[str, Any]
) -> None:
    worker = checked_worker(**kind | ({"staleness": 0} if kind["max_stages"] > 1 else {}))
    worker.draws_at_once = ready = False
    for event in events:
        if event == "answer":
            if worker.pending:
                worker.answer(worker.pending[0], 0.0)
        elif isinstance(event, m.Ready):
            if not ready and not worker.done:
                worker.handle(m.Ready(RoundKey(first_round)))
                ready = True
        elif not isinstance(event, str):
            worker.handle(event)
    worker.handle(m.Stop(1000.0))
    while worker.pending and not worker.done:
        worker.answer(worker.pending[0], 1000.0)
    assert worker.done


@settings(max_examples=100, deadline=None)
@given(times, times, st.floats(0.1, 120))
def test_gathering_lasts_half_a_round_interval_at_most(begun: float, elapsed: float, interval: float) -> None:
    worker = make_worker(m.Phase.GATHERING, round_interval=interval, now=begun)
    assert worker.machine.wake_at is not None
    assert worker.machine.wake_at <= begun + interval / 2
    assert bool(worker.handle(m.Tick(begun + elapsed))) == (begun + elapsed >= begun + interval / 2)


# ── how long gathering may take ───────────────────────────────────────────────────────────────────────────────────────
def make_pace(*waits: float, longest: float = 30.0) -> GatherPace:
    pace = GatherPace(longest)
    for wait in waits:
        pace.observe(wait)
    return pace


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


@given(st.lists(st.floats(0, 10), min_size=1, max_size=GatherPace.WINDOW))
def test_whoever_was_heard_lately_would_be_waited_for_again(waits: list[float]) -> None:
    assert make_pace(*waits, longest=1e3).allowance() > max(waits)
