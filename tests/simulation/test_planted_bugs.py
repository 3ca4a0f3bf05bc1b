"""The simulator finds bugs: each of those that earlier attempts had, planted again, breaks a law within some seeds.

Each is a small change to the product's own code; SEEDS says within how many runs of a small swarm it has to be caught,
with some more faults than a usual run has. Without any of them the same seeds break no law.
"""

from __future__ import annotations

import gc
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from swarm.algo.drawing import Drawing
from swarm.node.base.attendance import Attendance, Settling, Submissions
from swarm.node.base.clock_belief import ClockBelief
from swarm.node.base.presence import Heartbeats, Presence
from swarm.node.base.write_queue import WriteQueue
from swarm.node.coordinator import clock_keeper, resume
from swarm.node.coordinator.coordinator_machine import CoordinatorLook, CoordinatorMachine, WriteState
from swarm.node.round import Rounds
from swarm.node.sharing import intake
from swarm.node.worker import events as m
from swarm.node.worker import own_groups, round_files, starting
from swarm.node.worker.context import WorkerContext
from swarm.node.worker.round_files import LeftCompletions, RoundFiles
from swarm.node.worker.saving import Saver
from swarm.node.worker.starting import Redo, RedoPlan
from swarm.node.worker.worker_machine import WorkerMachine
from swarm.types import RoundKey
from swarm.wire.codec import encode
from swarm.wire.group_files import digest
from swarm.wire.messages import RolloutFile
from tests.doubles.memory import MemoryStore
from tests.patience import part_a_day
from tests.simulation.faults import STRANGERS
from tests.simulation.laws import BrokenLawError
from tests.simulation.plan import Plan
from tests.simulation.virtual_time import unheard
from tests.simulation.watched_store import WatchedStore
from tests.simulation.world import World

pytestmark = pytest.mark.engine

SEEDS = 20
WORKERS = 4
OFTEN = {
    "kills": 4.0,
    "power_cuts": 3.0,
    "deaths_in_writing": 5.0,
    "coordinator_deaths": 1.5,
    "full_disks": 3.0,
    "pauses": 3.0,
}
"""Faults that a seed has or has not; here each seed has half of them."""
Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """What a broken world left open is said of its own test, not of whichever runs when it is collected."""
    yield
    gc.collect()


def plan_of(seed: int, faults: Mapping[str, float], *, one_by_one: bool = False, settles: bool = False) -> Plan:
    drawn = Plan.drawn(seed, workers=WORKERS)
    often = {kind: number for place, (kind, number) in enumerate(OFTEN.items()) if (seed >> place % 3) & 1}
    often = {kind: number for kind, number in often.items() if kind not in faults}
    calm = drawn.faults.without("vandals", "liars", "quitters", "late_joiners", "slow", *STRANGERS)
    faulty = replace(calm, **often, **faults)
    expected = {"named": False, "expects": not settles}
    return replace(drawn, rounds=4, cleanup="", one_by_one=one_by_one, faults=faulty, **expected)


def first_broken_law(
    faults: Mapping[str, float], first: int = 0, seeds: int = SEEDS, *, one_by_one: bool = False, settles: bool = False
) -> str:
    """What the first of so many seeds that breaks a law says; nothing if none does."""
    for seed in range(first, first + seeds):
        with unheard():  # the world that breaks a law is cut off, and goes with its last reference
            if said := _broken_law(plan_of(seed, faults, one_by_one=one_by_one, settles=settles)):
                return said
    return ""


def _broken_law(plan: Plan) -> str:
    try:
        World(plan).run()
    except BrokenLawError as broken:
        return str(broken)
    finally:
        gc.collect()
    return ""


class Planted(NamedTuple):
    """One bug, and a part of what the broken law says."""

    plant: Callable[[Patch], None]
    says: tuple[str, ...]
    faults: Mapping[str, float]
    """Where it shows."""
    first: int
    """The seed to begin with, since it was caught there: the others follow."""
    how: Mapping[str, bool]
    """`one_by_one`: groups are published so; `settles`: nobody is expected by name or number."""


BUGS: list[Planted] = []


def planted(
    *says: str, faults: Mapping[str, float] = {}, first: int = 0, **how: bool
) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Enters a function that plants a bug."""

    def enter(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        BUGS.append(Planted(plant, says, faults, first, how))
        return plant

    return enter


# ── the clock ───────────────────────────────────────────────────────────────────────────────────────────────────────
@planted("the clock goes from")
def rounds_advance_twice(patch: Patch) -> None:
    def advance(self: CoordinatorMachine, look: CoordinatorLook, reason: str, returning: frozenset[str]) -> WriteState:
        usual(self, look, reason, returning)
        return usual(self, look, reason, returning)

    usual = CoordinatorMachine._advance
    patch.setattr(CoordinatorMachine, "_advance", advance)


@planted("it takes the clock over", first=8)
def a_coordinator_restarts_at_round_0(patch: Patch) -> None:
    patch.setattr(clock_keeper, "resume_point", lambda *asked: (RoundKey(0), *resume.resume_point(*asked)[1:]))


@planted("it takes the clock over", faults={"vandals": 1.0, "coordinator_deaths": 4.0}, first=14)
def a_torn_state_is_taken_for_round_0(patch: Patch) -> None:
    patch.setattr(resume, "clock_from_traces", lambda *asked: RoundKey(0))


@planted("it begins without", settles=True, first=2)
def the_clock_begins_with_the_first_worker(patch: Patch) -> None:
    def look(self: Settling, now: float, starting: Set[str], active: Set[str]) -> float | None:
        return None if active else math.inf

    patch.setattr(Settling, "look", look)


@planted("no round is open", faults={"crowds": 1.0}, settles=True)
def strangers_put_the_beginning_off_for_ever(patch: Patch) -> None:
    def init(self: Settling, settle_time: float, longest: float, known: frozenset[str] = frozenset()) -> None:
        usual(self, settle_time, float("inf"), known)

    usual = Settling.__init__
    patch.setattr(Settling, "__init__", init)


@planted("and the round is open", faults={"quitters": 3.0}, settles=True, first=1)
def a_round_waits_for_ever_for_who_was_there(patch: Patch) -> None:
    def those(self: CoordinatorMachine, look: CoordinatorLook) -> frozenset[str]:
        return frozenset(self._attendance.earned) - look.live if look.live else frozenset()

    patch.setattr(CoordinatorMachine, "_those_returning", those)
    patch.setattr(CoordinatorMachine, "_overdue", lambda self, look: False)


@planted("it stands still", first=6)
def a_dead_worker_is_waited_for_for_ever(patch: Patch) -> None:
    def handle(self: Any, look: CoordinatorLook) -> object:
        self._ever = getattr(self, "_ever", frozenset()) | look.live
        self._settings = replace(self._settings, round_interval=float("inf"))
        return usual(self, replace(look, live=self._ever, front=None))

    usual = CoordinatorMachine.handle
    patch.setattr(CoordinatorMachine, "handle", handle)


@planted("the clock goes back", "the clock goes from", first=25)
def the_clock_goes_back_to_a_stale_state(patch: Patch) -> None:
    def follow(self: CoordinatorMachine, look: CoordinatorLook) -> None:
        if look.clock is not None and self.key is not None:
            self.key = look.clock.key

    patch.setattr(CoordinatorMachine, "_follow", follow)


@planted("it stands still")
def a_coordinator_does_not_see_who_is_alive(patch: Patch) -> None:
    usual = clock_keeper.Observer.look

    def look(self: clock_keeper.Observer, key: RoundKey, *, opened: bool = True) -> CoordinatorLook | None:
        seen = usual(self, key, opened=opened)
        return seen and replace(seen, live=frozenset(), submitted=frozenset(), front=None)

    patch.setattr(clock_keeper.Observer, "look", look)


# ── a worker's decisions ────────────────────────────────────────────────────────────────────────────────────────────
@planted("it did not wait for")
def a_fixed_sleep_is_the_barrier(patch: Patch) -> None:
    def look_around(self: WorkerMachine) -> Sequence[m.Instruction]:
        if self.phase is m.Phase.GATHERING and self.key:
            self._gather_until = self._gather_since + 0.05
        return usual(self)

    usual = WorkerMachine._look_around
    patch.setattr(WorkerMachine, "_look_around", look_around)


@planted("the newest of each peer")
def what_lies_there_is_not_taken(patch: Patch) -> None:
    """The groups of live peers have arrived, and are not trained on."""
    patch.setattr(WorkerMachine, "_sources", lambda self, mine: {})


@planted("it stands still", faults={"coordinator_deaths": 16.0}, first=12)
def nobody_goes_on_without_a_coordinator(patch: Patch) -> None:
    patch.setattr(WorkerMachine, "_go_on_alone", lambda self: None)


@planted("it does not follow", "a round begins where the clock is", faults={"coordinator_deaths": 16.0}, first=16)
def nobody_follows_a_coordinator_that_came_back(patch: Patch) -> None:
    usual = WorkerMachine._on_coordinator

    def on_coordinator(self: WorkerMachine, alive: bool, looked_at: float) -> Sequence[m.Instruction]:
        return usual(self, alive and not self.on_own_clock, looked_at)

    patch.setattr(WorkerMachine, "_on_coordinator", on_coordinator)


@planted("the newest of each peer", first=6)
def the_first_to_arrive_decides(patch: Patch) -> None:
    """Of a peer's rounds within the window, whichever came first."""

    def sources(self: WorkerMachine, mine: RoundKey) -> dict[str, RoundKey]:
        found: dict[str, RoundKey] = {}
        for key, peers in self._arrived.items():
            if abs(key.round - mine.round) <= (self._settings.staleness_window if self.on_own_clock else 0):
                for peer in peers:
                    found.setdefault(peer, key)
        return dict(sorted(found.items()))

    patch.setattr(WorkerMachine, "_sources", sources)


# ── after a death ───────────────────────────────────────────────────────────────────────────────────────────────────
@planted("has two rows", "is done again", "not in the weights", "cumulative reward")
def rows_are_forgotten_at_a_restart(patch: Patch) -> None:
    """A round is done again whose row is there already: it counts twice."""
    usual = starting.read_own_rows

    def read_own_rows(*arguments: Any) -> Any:
        rows = usual(*arguments)
        return rows._replace(rows=rows.rows[:-1])

    patch.setattr(starting, "read_own_rows", read_own_rows)


@planted("not in the weights")
def checkpoints_are_never_loaded(patch: Patch) -> None:
    patch.setattr(starting, "restore_newest", lambda *arguments: None)
    patch.setattr(starting, "plan_redo", lambda *arguments: RedoPlan(()))


@planted("its weights hold a round twice")
def a_round_is_redone_twice(patch: Patch) -> None:
    """The redo counts from the beginning, although the checkpoint has those rounds."""
    usual = starting.plan_redo
    patch.setattr(starting, "plan_redo", lambda rows, checkpoint, *rest: usual(rows, None, *rest))


@planted("comes out as another one", first=1)
def redo_takes_external_groups_in_another_order(patch: Patch) -> None:
    usual = Redo._external

    async def external(self: Redo, names: Any) -> Any:
        return (await usual(self, names))[::-1]

    patch.setattr(Redo, "_external", external)


@planted("a published rollout file is changed", "all of it is there")
def published_rollouts_are_drawn_anew(patch: Patch) -> None:
    patch.setattr(own_groups, "what_is_left", lambda ctx, key, **how: LeftCompletions(None, None))


@planted("its cumulative reward is")
def the_cumulative_reward_begins_anew_at_a_restart(patch: Patch) -> None:
    usual = Rounds.continue_from

    async def continue_from(self: Rounds, rows: Any) -> RoundKey:
        following = await usual(self, rows)
        self.cumulative_reward = 0.0
        return following

    patch.setattr(Rounds, "continue_from", continue_from)


@planted("a checkpoint holds an update", faults={"full_disks": 8.0}, first=14)
def a_checkpoint_does_not_wait_for_rows(patch: Patch) -> None:
    patch.setattr(Saver, "_why_not_now", lambda self: "")


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────
@planted("an acknowledged rollout file is lost", first=2)
def a_write_is_acknowledged_before_it_is_durable(patch: Patch) -> None:
    usual = WatchedStore._put

    def put(self: WatchedStore, key: str, data: bytes, *, if_absent: bool, durable: bool) -> None:
        usual(self, key, data, if_absent=if_absent, durable=False)
        if durable:
            self._world.laws.has_put(self._host, key, data, durable=True)

    patch.setattr(WatchedStore, "_put", put)


@planted("no row tells of", "a row without its reward", "not that of a row", "are counted, and rows of", first=1)
def a_row_is_acknowledged_before_it_is_durable(patch: Patch) -> None:
    usual = WatchedStore.append_records
    patch.setattr(
        WatchedStore, "append_records", lambda self, key, records, *, durable: usual(self, key, records, durable=False)
    )


@planted("not that of a row", first=22)
def what_is_refused_goes_to_the_end_of_the_queue(patch: Patch) -> None:
    usual = WriteQueue._refused

    def refused(self: WriteQueue, error: Any) -> None:
        usual(self, error)
        self._queue = deque([*list(self._queue)[1:], self._queue[0]])

    patch.setattr(WriteQueue, "_refused", refused)


@planted("a row without its reward", "no row tells of", "not that of a row", first=3)
def what_is_refused_is_forgotten(patch: Patch) -> None:
    usual = WriteQueue._refused

    def refused(self: WriteQueue, error: Any) -> None:
        usual(self, error)
        self._drop(self._queue[0])

    patch.setattr(WriteQueue, "_refused", refused)


@planted("not that of a row")
def the_reward_comes_before_the_row(patch: Patch) -> None:
    row, reward = RoundFiles.row, RoundFiles.reward

    async def reward_first(self: RoundFiles, written: Any) -> None:
        await reward(self, written)
        await row(self, written)

    async def nothing(self: RoundFiles, written: Any, *, anew: bool = False) -> None:
        return None

    patch.setattr(RoundFiles, "row", reward_first)
    patch.setattr(RoundFiles, "reward", nothing)


# ── seeing ──────────────────────────────────────────────────────────────────────────────────────────────────────────
@planted("drawn are", first=3)
def what_is_drawn_is_not_waited_for(patch: Patch) -> None:
    usual = Drawing.sample
    patch.setattr(Drawing, "wanted", lambda self, *_: [])
    patch.setattr(Drawing, "sample", lambda self, results: usual(self, results)._replace(complete=True))


@planted("drawn are", first=3)
def who_is_known_first_is_drawn_first(patch: Patch) -> None:
    patch.setattr(intake, "random_ranks", lambda seed, *purpose: lambda name, slots: range(slots))


@planted("it stands still", "it does not follow")
def a_heartbeat_does_not_move(patch: Patch) -> None:
    usual = Presence._registration

    def registration(self: Presence) -> Any:
        peer = usual(self)
        peer.beat = 1
        return peer

    patch.setattr(Presence, "_registration", registration)


@planted("a node ends with DuplicateNodeError")
def a_dead_process_is_taken_for_alive(patch: Patch) -> None:
    """Nobody with the same name can start again."""

    async def first_alive(ctx: Any, holders: Any) -> Any:
        return next((holder for holder in holders if holder.status != "stopped"), None)

    patch.setattr("swarm.node.base.presence.first_alive", first_alive)


# ── strangers ───────────────────────────────────────────────────────────────────────────────────────────────────────
@planted("names that never publish cost it", faults={"crowds": 1.0}, first=3)
def every_newcomer_has_a_grace_of_its_own(patch: Patch) -> None:
    patch.setattr(Attendance, "_grace_lasts", lambda self: True)


@planted(
    "leaves out rounds for a clock",
    "nobody has said that all are done",
    "rounds that the experiment has not",
    faults={"forgers": 1.0},
    first=6,
)
def whatever_the_state_file_says_is_believed(patch: Patch) -> None:
    patch.setattr(ClockBelief, "believes", lambda self, seen, done, *, traces: True)


@planted("the clock jumps to where", faults={"sybils": 1.0})
def a_reward_counts_without_rollouts(patch: Patch) -> None:
    patch.setattr(Submissions, "_with_rollouts", lambda self, key, nodes: nodes)


@planted(
    "a row without its reward",
    "it trained before it tried to publish",
    "a node ends with StoreError",
    "a stranger's state stays",
    faults={"obstructers": 1.0},
    first=2,
)
def what_stands_in_the_way_stays(patch: Patch) -> None:
    usual = MemoryStore.put

    def put(self: MemoryStore, key: str, data: bytes, **how: bool) -> None:
        if isinstance(self._place.find(key), dict):
            raise self._blocked(key, "a prefix stands there")
        usual(self, key, data, **how)

    patch.setattr(MemoryStore, "put", put)


@planted("a node ends with DuplicateNodeError", faults={"claimants": 1.0}, first=8)
def a_registration_need_not_beat(patch: Patch) -> None:
    patch.setattr(Heartbeats, "observe", lambda self, peer: True)


@planted("a published rollout file is changed", one_by_one=True, first=2)
def a_group_is_made_again_at_another_time(patch: Patch) -> None:
    patch.setattr(round_files, "_one", lambda *asked: None)
    usual = own_groups.to_rollouts

    def to_rollouts(
        ctx: WorkerContext, generator: Any, work: Any, groups: Any, timestamp: float, earlier: Any = None
    ) -> RolloutFile:
        return usual(ctx, generator, work, groups, ctx.clock.wall(), earlier)

    patch.setattr(own_groups, "to_rollouts", to_rollouts)


@planted("it names a group that is not there", one_by_one=True)
def a_group_is_named_and_not_written(patch: Patch) -> None:
    patch.setattr(RoundFiles, "early", lambda self, file, slot: (digest(encode(file)), len(encode(file))))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("bug", part_a_day(BUGS, 3), ids=lambda bug: bug.plant.__name__)
def test_a_planted_bug_is_caught(bug: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    said = first_broken_law(bug.faults, bug.first, **bug.how)
    assert any(part in said for part in bug.says), said or f"{SEEDS} seeds broke no law"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("one_by_one", [False, True])
def test_without_any_planted_bug_such_seeds_break_no_law(one_by_one: bool) -> None:
    assert first_broken_law({}, seeds=SEEDS // 4, one_by_one=one_by_one) == ""
