"""What has to hold after every step, whatever goes wrong.

An instruction of a worker is held against what a worker may do at all by CheckedWorker; the rest is here: what is in
the folder and in the weights, what a coordinator decides, and that everything goes on.

How long anything may take (`BOUND_*`) is stated below. A disturbance is a death, start, pause or full disk of the node
itself, any of a coordinator, and a partition; while they go on, so may the waiting.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from swarm.node.coordinator.coordinator_machine import Decision, Look, WriteState
from swarm.node.worker import events as m
from swarm.types import RoundKey, ScoredGroup
from tests.simulation.folder import Reward, RolloutsFile, Row, State

if TYPE_CHECKING:
    from tests.simulation.coordinator_node import CoordinatorNode
    from tests.simulation.process import Process
    from tests.simulation.worker_node import WorkerNode
    from tests.simulation.world import World

LONGEST_RUN = 3000.0
"""Virtual seconds."""
MOST_EVENTS = 20_000
"""Per worker; a usual run has a twentieth of that."""
BOUND_SLACK = 30.0
"""Seconds for heartbeats, looks, loading and files that come late."""
BOUND_FOLLOWING = 20.0
"""Seconds after which a worker follows a coordinator that is there and seen: two heartbeats, a look, a time-out."""
_OF_THE_CLOCK = (
    "coordinator_deaths",
    "full_disks",
    "in_writing:kill",
    "in_writing:pause",
    "in_writing:power_cut",
    "partitions",
    "pauses",
    "vandalised_states",
)
"""Faults after which a clock may stand still, jump or be restored."""
Sampler = Callable[[str, RoundKey, int, list[ScoredGroup]], list[tuple[str, RoundKey, int]]]


class BrokenLawError(AssertionError):
    """Says what was broken, by whom, when, and how to see it again."""


class Laws:
    """Watches one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._acknowledged: dict[str, dict[RoundKey, str]] = {}
        self._tried: dict[str, tuple[int, RoundKey]] = {}
        self._clock_of: dict[str, RoundKey] = {}
        """Where a coordinator's clock stands."""
        self._disturbed_at = 0.0

    def broken(self, what: str, who: str, round_: int | None = None) -> BrokenLawError:
        plan = self._world.plan
        where = "" if round_ is None else f" in round {round_}"
        return BrokenLawError(
            f"{what}: {who}{where}, at {self._world.now:.2f} s of seed {plan.seed}; see it again with "
            f"python -m tests.simulation --seed {plan.seed} --runs 1 --workers {plan.workers} --trace"
        )

    @contextmanager
    def of(self, process: Process) -> Iterator[None]:
        """What the machine of a process is asked, and does, is held against what it may do at all."""
        try:
            yield
        except BrokenLawError:
            raise
        except AssertionError as error:
            line = traceback.extract_tb(error.__traceback__)[-1].line
            raise self.broken(str(error) or f"expected {line}", process.name) from error

    # ── rollouts ────────────────────────────────────────────────────────────────────────────────────────────────────
    def publish_tried(self, worker: WorkerNode, key: RoundKey) -> None:
        self._tried[worker.name] = (worker.life, key)

    def publishes(self, node: str, file: RolloutsFile) -> None:
        known = self._acknowledged.get(node, {}).get(file.key)
        there = self._world.folder.rollouts_of(node, file.key)
        if known is not None and there is not None and there.writer == node and file.content != known:
            raise self.broken("an acknowledged rollout file is changed", node, file.key.round)

    def acknowledged(self, node: str, file: RolloutsFile) -> None:
        self._acknowledged.setdefault(node, {})[file.key] = file.content
        self._is_there(node, file.key, file.content)

    def nothing_acknowledged_is_lost(self, node: str) -> None:
        for key, content in self._acknowledged.get(node, {}).items():
            self._is_there(node, key, content)

    def _is_there(self, node: str, key: RoundKey, content: str) -> None:
        there = self._world.folder.rollouts_of(node, key)
        if there is None or (there.writer == node and there.content != content):
            raise self.broken("an acknowledged rollout file is lost", node, key.round)

    # ── weights, rows, rewards ──────────────────────────────────────────────────────────────────────────────────────
    def resumed(self, worker: WorkerNode, next_round: int) -> None:
        self._each_once(worker)
        rows = {row.round for row in self._world.folder.rows_of(worker.name)}
        if lost := rows - set(worker.weights):
            raise self.broken("an update is not in the weights that a node goes on with", worker.name, min(lost))
        if untold := set(worker.weights) - rows:
            raise self.broken("a node goes on with an update that no row tells of", worker.name, min(untold))
        if rows and next_round <= max(rows):
            raise self.broken("a round is done again after a restart", worker.name, next_round)

    def stepped(self, worker: WorkerNode, key: RoundKey) -> None:
        self._each_once(worker)
        if self._tried.get(worker.name) != (worker.life, key):
            raise self.broken("it trained before it tried to publish", worker.name, key.round)

    def _each_once(self, worker: WorkerNode) -> None:
        weights = worker.weights
        if any(later <= earlier for earlier, later in pairwise(weights)):
            raise self.broken(f"its weights hold a round twice, or out of order: {weights}", worker.name)

    def writes_row(self, node: str, row: Row) -> None:
        rows = self._world.folder.rows_of(node)
        if rows and row.round <= rows[-1].round:
            raise self.broken("a node's rounds go back, or one has two rows", node, row.round)

    def rewarded(self, node: str, reward: Reward) -> None:
        if self._world.folder.reward_of(node, reward.key):
            raise self.broken("a reward is counted twice", node, reward.key.round)
        rows = self._world.folder.rows_of(node)
        if not rows or (rows[-1].round, rows[-1].value) != (reward.key.round, reward.value):
            raise self.broken("a reward is submitted that is not that of the last row", node, reward.key.round)

    # ── what is learned from ────────────────────────────────────────────────────────────────────────────────────────
    def sampled(
        self, worker: WorkerNode, train: m.Train, pool: dict[RoundKey, dict[str, RolloutsFile]], sample: Sampler
    ) -> tuple[str, ...]:
        """Which groups a node trains on, as its row names them; the same whatever came first."""
        count = self._world.plan.external_groups
        files = []
        for peer, key in train.sources:
            if peer not in pool.get(key, {}):
                raise self.broken(f"it takes groups of {peer} that never arrived", worker.name, train.key.round)
            files.append(pool[key][peer])
        came = [group for file in files for group in file.groups]
        sampled = sample(worker.name, train.key, count, came)
        if sampled != sample(worker.name, train.key, count, came[::-1]):
            raise self.broken("the order of arrival decides what is trained on", worker.name, train.key.round)
        if set(sampled) - {(s.group.peer_id, RoundKey(s.group.round, s.group.stage), s.group.slot) for s in came}:
            raise self.broken("it trains on what it did not sample from", worker.name, train.key.round)
        return tuple(f"{peer}/{key.round}/{key.stage}/{slot}" for peer, key, slot in sampled)

    # ── the clock ───────────────────────────────────────────────────────────────────────────────────────────────────
    def takes_over(
        self, coordinator: CoordinatorNode, key: RoundKey, state: State | None, submitted: dict[RoundKey, set[str]]
    ) -> None:
        if state is not None and key < state.key:
            raise self.broken(f"it takes the clock over before {state.key}, which the folder says", coordinator.name)
        everybody = {node for nodes in submitted.values() for node in nodes}
        for later in submitted:
            came_so_far = {node for at, nodes in submitted.items() if at >= later for node in nodes}
            if key < later and 2 * len(came_so_far) > len(everybody):
                raise self.broken(f"it takes the clock over at {key}, but most have come to {later}", coordinator.name)
        self._clock_of[coordinator.name] = key
        self.disturbed(until=self._world.now)

    def decided(self, coordinator: CoordinatorNode, look: Look, decision: Decision | None) -> None:
        stood = self._clock_of[coordinator.name]
        if look.clock is not None:
            stood = max(stood, look.clock.key)
        if isinstance(decision, WriteState):
            self._may_be_written(coordinator.name, stood, look, decision)
            stood = decision.key
        self._clock_of[coordinator.name] = stood

    def _may_be_written(self, who: str, stood: RoundKey, look: Look, write: WriteState) -> None:
        plan, key = self._world.plan, write.key
        if key < stood:
            raise self.broken(f"the clock goes back from {stood}", who, key.round)
        following = RoundKey(stood.round, stood.stage + 1)
        if following.stage >= plan.stages:
            following = RoundKey(stood.round + 1)
        allowed = {"restored": stood, "opened": stood, "all_submitted": following, "interval": following}
        if write.reason == "caught_up":
            done = self._world.coordinator_named(who).submitted_in(key)
            if 2 * len(done & look.live) <= len(look.live):
                raise self.broken("the clock jumps to where most workers are not", who, key.round)
        elif write.reason == "interval" and not look.live:
            raise self.broken("the clock goes on although nobody is there", who, key.round)
        elif key != allowed[write.reason]:
            raise self.broken(f"the clock goes from {stood} to {key} ({write.reason})", who, key.round)
        if write.finished != (key.round >= plan.rounds):
            raise self.broken(f"finished is {write.finished}", who, key.round)

    # ── going on ────────────────────────────────────────────────────────────────────────────────────────────────────
    def disturbed(self, *, until: float) -> None:
        """Something befell all of them, or the coordinator."""
        self._disturbed_at = max(self._disturbed_at, until)

    def still_goes_on(self, worker: WorkerNode) -> None:
        """As long as a worker lives and its disk works it does another round, and it follows a coordinator."""
        world, plan = self._world, self._world.plan
        if worker.checked.done or worker.machine.phase in (m.Phase.SAVING, m.Phase.LOADING):
            return
        quiet_since = max(worker.progress_at, worker.disturbed_at, self._coordinators_disturbed_at())
        bound = plan.patience + plan.timeout + 2 * plan.interval + 5 * worker.slowness + BOUND_SLACK
        if world.now - quiet_since > bound:  # a node that went on alone waits for the clock to come where it is
            clocks = (s.key.round for s in world.folder.states if s.time >= quiet_since and not s.torn)
            ahead = max(0, worker.machine.rounds_done - next(clocks, worker.machine.rounds_done))
            if world.now - quiet_since > bound + ahead * plan.stages * plan.interval:
                raise self.broken(
                    f"it stands still in {worker.machine.phase} since {quiet_since:.1f} s",
                    worker.name,
                    worker.machine.rounds_done,
                )
        if worker.machine.on_own_clock and not plan.own_clock:
            self._nobody_to_follow(worker)

    def _coordinators_disturbed_at(self) -> float:
        return max([self._disturbed_at, *(coordinator.disturbed_at for coordinator in self._world.coordinators)])

    def _nobody_to_follow(self, worker: WorkerNode) -> None:
        world = self._world
        for coordinator in world.coordinators:
            if not coordinator.keeps_the_clock:
                continue
            seen_since = max(
                coordinator.in_office_since,
                coordinator.disturbed_at,
                worker.disturbed_at,
                world.network.connected_since(coordinator.name, worker.name, world.now),
            )
            if world.now - seen_since > BOUND_FOLLOWING:
                raise self.broken(f"it does not follow {coordinator.name}, there since {seen_since:.1f}", worker.name)

    def within_time(self) -> None:
        if self._world.now > LONGEST_RUN or self._world.events > MOST_EVENTS * self._world.plan.workers:
            unfinished = [w.name for w in self._world.workers if not w.finished and w.name not in self._world.quitters]
            raise self.broken(f"the swarm does not end; {len(unfinished)} have not finished", unfinished[0])

    def at_the_end(self) -> None:
        """Everything once more, over the whole folder."""
        world, folder = self._world, self._world.folder
        for worker in world.workers:
            self.nothing_acknowledged_is_lost(worker.name)
            rounds = [row.round for row in folder.rows_of(worker.name)]
            if rounds != sorted(set(rounds)):
                raise self.broken(f"its rows are of rounds {rounds}", worker.name)
            if worker.name in world.quitters:
                continue
            for row in folder.rows_of(worker.name):
                reward = folder.reward_of(worker.name, row.key)
                if reward is None or reward.value != row.value:
                    raise self.broken("a row without its reward", worker.name, row.round)
        self._visits_every_round(folder.states)

    def _visits_every_round(self, states: Sequence[State]) -> None:
        """Where nothing befell the coordinator or what it sees, the clock visits every stage once, in order."""
        world, plan = self._world, self._world.plan
        if plan.own_clock or any(world.injected[kind] for kind in _OF_THE_CLOCK):
            return
        opened = [key for key, _ in groupby(state.key for state in states if not state.held)]
        every = [RoundKey(r, s) for r in range(plan.rounds) for s in range(plan.stages)]
        if opened != [*every, RoundKey(plan.rounds)]:
            raise self.broken(f"the clock visits {opened}", states[0].writer)
