"""What a worker decides."""

from __future__ import annotations

import math
from collections.abc import Callable, Set
from typing import Any
from unittest.mock import ANY

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
NOBODY = frozenset[str]()


def clock(round_: int, *, finished: bool = False, now: float = 0.0, stage: int = 0, max_rounds: int = 0) -> m.ClockSeen:
    return m.ClockSeen(RoundKey(round_, stage), finished, now, max_rounds=max_rounds)


def trains(
    key: RoundKey, heard: frozenset[str], awaited: frozenset[str], *, timed_out: bool = False, late: bool = False
) -> m.Train:
    return m.Train(key, heard, awaited, timed_out, late)


def there(peer: str, now: float, key: RoundKey = R0) -> m.PeersNews:
    """A peer's file for a round is there."""
    return m.PeersNews(FileNews.THERE, key, frozenset({peer}), now)


def live(peers: Set[str], now: float, **more: Any) -> m.PeersLive:
    return m.PeersLive(frozenset(peers), now, **{name: frozenset(them) for name, them in more.items()})


def absent(now: float) -> m.CoordinatorSeen:
    return m.CoordinatorSeen(False, now)


def did(phase: m.Phase, key: RoundKey = R0) -> m.StepDone:
    return m.StepDone(phase, key, 1.0 if phase is m.Phase.PUBLISHING else -math.inf)


def drive(worker: CheckedWorker, until: m.Phase, now: float = 0.0) -> None:
    """Answer every instruction until the machine is in a phase."""
    while worker.machine.phase is not until:
        assert worker.pending, f"it stands still in {worker.machine.phase}"
        worker.answer(worker.pending[0], now)


def make_worker(phase: m.Phase = m.Phase.IDLE, *, peers: Set[str] = PEERS, **settings: Any) -> CheckedWorker:
    """A worker with two live peers in some phase of round 0."""
    worker = checked_worker(**settings)
    if phase is m.Phase.LOADING:
        return worker
    worker.handle(m.Ready(R0))
    worker.handle(live(peers, 0.0))
    if phase is m.Phase.IDLE:
        return worker
    worker.handle(clock(0))
    if phase in (m.Phase.TRAINING, m.Phase.SUBMITTING):
        drive(worker, m.Phase.GATHERING)
        for peer in sorted(peers):
            worker.handle(there(peer, 0.0))
    drive(worker, phase)
    return worker


def run_round(worker: CheckedWorker, round_: int, now: float = 0.0) -> None:
    worker.handle(clock(round_, now=now))
    drive(worker, m.Phase.GATHERING, now)
    for peer in sorted(PEERS):
        worker.handle(there(peer, now, RoundKey(round_)))
    drive(worker, m.Phase.IDLE, now)


# ── what it does next, event by event ───────────────────────────────────────────────────────────────────────────────
Step = Callable[[CheckedWorker], None]


def on(event: m.Event, *does: m.Instruction, wakes: object = ANY) -> Step:
    """An event, what comes of it, and when the machine is to be woken then."""

    def step(worker: CheckedWorker) -> None:
        assert worker.handle(event) == list(does), event
        assert worker.machine.wake_at == wakes, event

    return step


def to(phase: m.Phase, now: float = 0.0) -> Step:
    """Whatever is asked for is done, until the machine is in this phase."""
    return lambda worker: drive(worker, phase, now)


def first_round(worker: CheckedWorker) -> None:
    run_round(worker, 0)


def story(phase: m.Phase, *steps: Step, **settings: Any) -> Callable[[], None]:
    """A worker of these settings, in this phase of round 0, goes through these steps."""

    def play() -> None:
        worker = make_worker(phase, **settings)
        for step in steps:
            step(worker)

    return play


P = m.Phase
ALONE: dict[str, Any] = {"own_clock": True, "max_rounds": 3, "round_interval": 10.0, "window": 1}
SAVES: dict[str, Any] = {"checkpoint_interval": 1}
IMPATIENT: dict[str, Any] = {"patience": 20.0}
THREE, BOB, CAROL = PEERS | {"dave"}, frozenset({"bob"}), frozenset({"carol"})
R2, R3 = RoundKey(2), RoundKey(3)
BEGINS = m.Generate(R0, 0)
COME_ONE_BY_ONE = [
    on(live(set(), 0.0, called={"alice"})),
    on(m.Ready(R0)),
    on(live(PEERS, 2.0, called=PEERS | {"alice"})),
    on(live(THREE, 3.0, called=THREE | {"alice"}), BEGINS, wakes=None),
]
STORIES: dict[str, Callable[[], None]] = {
    # a round
    "after a skip generating ahead begins anew": story(
        P.IDLE,
        on(clock(0), BEGINS),
        to(P.IDLE),
        on(clock(5), m.Generate(R5, 4)),
        on(did(P.GENERATING, R5), m.Step(P.SCORING, R5), m.GenerateAhead(RoundKey(6))),
        external_groups=0,
        staleness=1,
    ),
    "a slow node finishes the round it began and then skips ahead": story(
        P.GENERATING,
        on(clock(5)),
        to(P.GATHERING),
        on(m.Tick(9.0), trains(R0, NOBODY, PEERS, timed_out=True, late=True)),
        on(did(P.TRAINING), m.Step(P.SUBMITTING, R0)),
        on(did(P.SUBMITTING), m.Generate(R5, 4)),
    ),
    # gathering
    "a stale state file that is seen after the deadline, as after a pause, ends it as any look does": story(
        P.IDLE,
        on(clock(1), m.Generate(R1, 1)),
        to(P.GATHERING),
        on(clock(0, now=60.0), trains(R1, NOBODY, PEERS, timed_out=True)),
        round_interval=10.0,
    ),
    "a peer that died is not waited for any longer": story(
        P.GATHERING, on(there("bob", 0.1)), on(live(BOB, 0.2), trains(R0, BOB, BOB))
    ),
    "a node whose round has closed waits a moment only, which a second step of the clock does not begin anew": story(
        P.GATHERING,
        on(clock(1, now=2.0), wakes=2.0 + LATE_GRACE),
        on(clock(2, now=2.5), wakes=2.0 + LATE_GRACE),
        on(m.Tick(2.0 + LATE_GRACE), trains(R0, NOBODY, PEERS, timed_out=True, late=True)),
        round_interval=60.0,
    ),
    "while nobody at all is there the machine is slow, or the way to them: the deadline is the longest": story(
        P.IDLE,
        first_round,
        on(clock(1, now=10.0), m.Generate(R1, 0)),
        to(P.GATHERING, 10.0),
        on(m.Tick(25.0), wakes=40.0),
        on(there("bob", 26.0, R1), trains(R1, BOB, PEERS, timed_out=True)),
        round_interval=60.0,
    ),
    "it follows the interval of the coordinator": story(
        P.PUBLISHING,
        on(m.ClockSeen(R0, False, 0.0, interval=600.0)),
        on(did(P.PUBLISHING), wakes=301.0),
        round_interval=10.0,
    ),
    # ending
    "a finished experiment that was reopened goes on": story(
        P.LOADING, on(clock(5, finished=True)), on(clock(5)), on(m.Ready(R5), m.Generate(R5, 0))
    ),
    "a stop before anything was learned just ends": story(P.IDLE, on(m.Stop(1.0), m.Finish("stopped"))),
    "a node that was stopped while it loaded begins nothing when it is ready": story(
        P.LOADING, on(clock(3)), on(m.Stop(0.0), m.Finish("stopped")), on(m.Ready(R3, unsaved=True))
    ),
    # checkpoints
    "what was redone is saved at once, also where all is over": story(
        P.LOADING,
        on(clock(2, finished=True)),
        on(m.Ready(R2, unsaved=True), m.Save(R2)),
        on(m.Saved(R2), m.Finish("finished")),
    ),
    "a last one that failed is written again": story(
        P.SUBMITTING, on(did(P.SUBMITTING)), on(clock(1, finished=True), m.Save(R1)), on(m.SaveFailed(R1), m.Save(R1))
    ),
    "leaving waits for one that is still being written": story(
        P.SUBMITTING, on(did(P.SUBMITTING), m.Save(R1)), on(m.Stop(1.0)), on(m.Saved(R1), m.Finish("stopped")), **SAVES
    ),
    "a slow older one does not end the wait for the last": story(
        P.SUBMITTING,
        on(did(P.SUBMITTING), m.Save(R1)),
        on(clock(1), m.Generate(R1, 0)),
        on(did(P.GENERATING, R1), m.Step(P.SCORING, R1)),
        on(did(P.SCORING, R1), m.Step(P.PUBLISHING, R1), m.BeginUpdate(R1)),
        on(m.Stop(1.0)),
        on(did(P.PUBLISHING, R1), trains(R1, NOBODY, PEERS, timed_out=True)),
        on(did(P.TRAINING, R1), m.Step(P.SUBMITTING, R1)),
        on(did(P.SUBMITTING, R1), m.Save(R2)),
        on(m.Saved(R1)),
        on(m.Saved(R2), m.Finish("stopped")),
        **SAVES,
    ),
    # without a coordinator
    "on its own clock a node believes no state file and no coordinator": story(
        P.LOADING,
        on(m.Ready(R0), BEGINS),
        on(clock(5, finished=True)),
        on(m.CoordinatorSeen(True, 1.0)),
        to(P.DONE),
        **ALONE,
        expected_workers=1,
    ),
    "nodes on their own clocks begin together, by number": story(
        P.LOADING, *COME_ONE_BY_ONE, **ALONE, expected_workers=4
    ),
    "and by name": story(P.LOADING, *COME_ONE_BY_ONE, **ALONE, expected_workers=("bob", "dave")),
    "nobody who does not come is waited for longer than an interval": story(
        P.LOADING,
        on(live(PEERS, 0.0)),
        on(m.Ready(R0), wakes=10.0),
        on(m.Tick(9.9)),
        on(m.Tick(10.0), BEGINS),
        **ALONE,
        expected_workers=4,
    ),
    "where nobody said how many there are they settle as workers of a coordinator do": story(
        P.LOADING,
        on(live(set(), 0.0)),
        on(m.Ready(R0), wakes=15.0),
        on(live(set(), 12.0, coming={"bob"})),
        on(live(BOB, 26.0)),
        on(m.Tick(27.0), BEGINS),
        **ALONE | {"round_interval": 60.0},
    ),
    "who comes to peers at work begins at once": story(
        P.LOADING, on(live(PEERS, 1.0, publishing=PEERS)), on(m.Ready(R0), BEGINS), **ALONE
    ),
    "so does who shares nothing": story(P.LOADING, on(m.Ready(R0), BEGINS), **ALONE, external_groups=0),
    # a coordinator that dies, and one that comes back
    "one that stood still, and knows what is as old as that, looks again before it goes on alone": story(
        P.IDLE,
        first_round,
        on(absent(5.0)),
        on(m.Tick(26.0)),
        on(live(PEERS, 26.0)),
        on(clock(1, now=26.0), m.Generate(R1, 0)),
        **IMPATIENT,
    ),
    "a coordinator that comes late, and is seen by its clock first, is given as much time as any": story(
        P.IDLE,
        on(absent(0.0)),
        on(absent(100.0)),
        on(clock(0, now=101.0), BEGINS),
        to(P.IDLE, 101.0),
        on(absent(102.0)),
        on(absent(121.9)),
        on(absent(122.0), m.Generate(R1, 0)),
        **IMPATIENT,
        peers=NOBODY,
    ),
    "who sees that others have begun goes on although the state file was always torn, and nobody fixes it": story(
        P.LOADING,
        on(live(PEERS, 0.0)),
        on(absent(0.0)),
        on(m.Ready(R0)),
        on(absent(99.0)),
        on(m.CoordinatorSeen(True, 100.0)),
        on(live(PEERS, 101.0, publishing=BOB)),
        on(live(PEERS, 102.0)),
        on(absent(110.0)),
        on(absent(130.0), BEGINS),
        **IMPATIENT,
    ),
    "a node that has done rounds goes on although it finds neither state nor coordinator": story(
        P.LOADING,
        on(m.Ready(R5)),
        on(absent(0.0)),
        on(absent(20.0), m.Generate(R5, 0)),
        to(P.DONE, 20.0),
        **IMPATIENT,
        max_rounds=6,
    ),
    "a node that leaves is not woken any more, also when patience ends while it saves": story(
        P.IDLE,
        first_round,
        on(absent(5.0)),
        on(m.Stop(6.0), m.Save(R1), wakes=None),
        on(absent(30.0), wakes=None),
        **IMPATIENT,
    ),
}


@pytest.mark.parametrize("told", STORIES)
def test_what_a_worker_does(told: str) -> None:
    STORIES[told]()


# ── a whole round, and several ──────────────────────────────────────────────────────────────────────────────────────
def test_a_round_goes_through_all_its_steps_in_order() -> None:
    story(
        P.IDLE,
        on(clock(0), BEGINS),
        on(did(P.GENERATING), m.Step(P.SCORING, R0)),
        on(did(P.SCORING), m.Step(P.PUBLISHING, R0), m.BeginUpdate(R0)),
        on(did(P.PUBLISHING), trains(R0, NOBODY, NOBODY)),
        on(did(P.TRAINING), m.Step(P.SUBMITTING, R0)),
        on(did(P.SUBMITTING)),
        to(P.IDLE),
        external_groups=0,
    )()


def test_with_staleness_the_next_round_is_generated_before_it_is_open() -> None:
    worker = make_worker(external_groups=0, staleness=1)
    worker.handle(clock(0, max_rounds=4))
    assert worker.handle(did(P.GENERATING)) == [m.Step(P.SCORING, R0), m.GenerateAhead(R1)]
    drive(worker, P.IDLE)
    assert worker.ahead == [R1, R2]  # the second as soon as the executor was free, one update behind
    for round_ in (1, 2, 3):
        worker.handle(clock(round_, max_rounds=4))
        drive(worker, P.IDLE)
    assert worker.ahead == [R1, R2, R3]  # and none for a round that never comes


def test_gathering_ends_when_the_last_live_peer_arrives() -> None:
    last = on(there("carol", 0.2), trains(R0, PEERS, PEERS), wakes=None)
    story(P.GATHERING, on(there("bob", 0.1)), last)()


def test_the_deadline_follows_the_swarm() -> None:
    worker = make_worker(round_interval=60.0)
    run_round(worker, 0)
    for round_, wakes in ((1, 13.0), (2, 26.5)):  # after a deadline that came too early the next is later
        now = 10.0 * round_
        worker.handle(clock(round_, now=now))
        drive(worker, P.GATHERING, now)
        on(there("bob", now + 0.1, RoundKey(round_)), wakes=pytest.approx(wakes))(worker)
        worker.handle(m.Tick(wakes))
        drive(worker, P.IDLE, now)


@pytest.mark.parametrize(
    ("rounds", "then", "reason"),
    [
        (3, m.Ready(R0), m.Finish("missed", rounds_missed=3)),
        (3, m.Ready(R2), m.Finish("missed", rounds_missed=1)),
        (3, m.Ready(R3), m.Finish("finished")),
        (0, m.Ready(R0), m.Finish("finished")),
        (3, m.Stop(1.0), m.Finish("finished")),
    ],
    ids=["all", "what no earlier life did", "none", "there were none", "stopped before it knew"],
)
def test_who_comes_when_all_rounds_are_over_has_missed_those_that_no_earlier_life_did(
    rounds: int, then: m.Event, reason: m.Finish
) -> None:
    """As a worker that Slurm queued again after its node was lost."""
    story(P.LOADING, on(clock(rounds, finished=True)), on(then, reason))()


@pytest.mark.parametrize("phase", [P.PUBLISHING, P.GATHERING, P.TRAINING, P.SUBMITTING])
def test_a_stop_after_publishing_finishes_the_round(phase: m.Phase) -> None:
    worker = make_worker(phase)
    worker.handle(m.Stop(0.0))
    drive(worker, P.DONE)
    assert (worker.trained, worker.rounds_saved, worker.finish) == ([R0], [1], m.Finish("stopped"))


@pytest.mark.parametrize(
    ("interval", "rounds", "saved"), [(2, range(6), [2, 4, 6]), (10, range(0, 100, 2), [*range(11, 100, 10), 99])]
)
def test_checkpoints_come_at_the_interval_also_of_a_node_that_skips_and_at_the_end_once_each(
    interval: int, rounds: range, saved: list[int]
) -> None:
    worker = make_worker(checkpoint_interval=interval, peers=NOBODY)
    for round_ in rounds:
        worker.handle(clock(round_))
        drive(worker, P.IDLE)
    worker.handle(clock(rounds.stop, finished=True))
    drive(worker, P.DONE)
    assert worker.rounds_saved == saved


def test_on_its_own_clock_a_node_does_one_round_after_the_other_and_is_finished() -> None:
    worker = make_worker(P.LOADING, **ALONE, expected_workers=1)
    on(m.Ready(R0), BEGINS)(worker)
    drive(worker, P.DONE)
    assert (worker.trained, worker.finish) == ([R0, R1, R2], m.Finish("finished"))


# ── a peer that never comes ─────────────────────────────────────────────────────────────────────────────────────────
def absent_for(rounds: int) -> CheckedWorker:
    """A worker whose live peer carol has published nothing for so many rounds, gathering in the next."""
    worker = make_worker(round_interval=20.0)
    for round_ in range(rounds + 1):
        now = 100.0 * round_
        worker.handle(clock(round_, now=now))
        drive(worker, P.GATHERING, now)
        if round_ < rounds:
            worker.handle(m.PeersNews(FileNews.VALID, R0, BOB, 0.0))
            worker.handle(there("bob", now, RoundKey(round_)))
            worker.handle(m.Tick(now + 50.0))
            drive(worker, P.IDLE, now + 50.0)
    return worker


def test_a_live_peer_that_never_publishes_is_waited_for_three_times() -> None:
    on(there("bob", 201.0, R2))(absent_for(2))
    on(there("bob", 301.0, R3), trains(R3, BOB, BOB))(absent_for(3))


@pytest.mark.parametrize("refused", [True, False])
def test_a_file_of_which_nothing_is_valid_earns_nobody_that_others_wait(refused: bool) -> None:
    worker = absent_for(3)
    worker.handle(live(PEERS, 300.5, publishing=CAROL))
    if refused:
        worker.handle(there("carol", 300.5, R2))
    assert worker.handle(there("bob", 301.0, R3)) != []


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
    worker = make_worker(round_interval=interval)
    worker.handle(clock(0, now=begun))
    drive(worker, P.GATHERING, begun)
    assert worker.machine.wake_at is not None
    assert worker.machine.wake_at <= begun + interval / 2
    assert bool(worker.handle(m.Tick(begun + elapsed))) == (begun + elapsed >= begun + interval / 2)


# ── how long gathering may take ───────────────────────────────────────────────────────────────────────────────────────
def make_pace(*waits: float, longest: float = 30.0) -> GatherPace:
    pace = GatherPace(longest)
    for wait in waits:
        pace.observe(wait)
    return pace


def test_one_slow_round_is_forgotten_after_some_quick_ones() -> None:
    pace = make_pace(14.0, *[0.1] * (GatherPace.WINDOW - 1))
    assert pace.allowance() == 28.5
    pace.observe(0.1)
    assert pace.allowance() == 3.0


@given(st.lists(st.floats(0, 10), min_size=1, max_size=GatherPace.WINDOW))
def test_whoever_was_heard_lately_would_be_waited_for_again(waits: list[float]) -> None:
    assert make_pace(*waits, longest=1e3).allowance() > max(waits)
