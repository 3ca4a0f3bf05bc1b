"""What has to hold after every step, whatever goes wrong.

    worker's machine ──every event, instruction──▶ CheckedWorker: what a worker may do at all
    coordinator's machine ──every decision───────▶ the clock never goes back, and for a reason only
    every write of every host ───────────────────▶ owner, order, once, unchanged; row before reward, rows before weights
    every update of every policy ────────────────▶ each round once, forwards; redone as it was
    every two seconds, every host ───────────────▶ it goes on, and follows a coordinator that is there

How long anything may take (`BOUND_*`) is stated below. A disturbance is a death, start, pause or lost disk of the node
itself, any of a coordinator, and a partition; while they go on, so may the waiting.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import msgspec

from swarm.algo.advantages import is_informative
from swarm.algo.drawing import random_ranks
from swarm.config import Settings
from swarm.errors import ConfigError, DuplicateNodeError, ExperimentError, MissedError, ProtocolError, SwarmError
from swarm.node.base.attendance import TRACES
from swarm.node.base.write_queue import LONGEST_PAUSE
from swarm.node.coordinator.coordinator_machine import CoordinatorLook, Decision, WriteState
from swarm.node.sharing.admission import questions_of
from swarm.node.worker import events as m
from swarm.store.base import Kind
from swarm.tasks.universe import Universe
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.codec import decode
from swarm.wire.group_files import digest, named_by, put_together
from swarm.wire.messages import PeerFile, RewardFile, RolloutFile, StateFile
from swarm.wire.metrics import MetricsRow
from tests.simulation.cleaning_laws import CleaningLaws
from tests.simulation.engine import WEIGHTS, Update, prompt_of, read_weights
from tests.simulation.plan import ARCHIVE, TASKS
from tests.simulation.starting_laws import StartingLaws
from tests.simulation.stranger_laws import StrangerLaws

if TYPE_CHECKING:
    from tests.simulation.hosts import Host
    from tests.simulation.nodes import CoordinatorHost, WorkerHost
    from tests.simulation.world import World

LONGEST_RUN = 3000.0
"""Virtual seconds."""
BOUND_SLACK = 45.0
"""Seconds for heartbeats, looks, loading, pauses between attempts, and files that come late."""
BOUND_FOLLOWING = 25.0
"""Seconds after which a worker follows a coordinator that is there and seen: two heartbeats, a look, a time-out."""
BOUND_REFUSED = 150.0
"""Seconds for which an error that ends a node may be told by a disk that refused."""
ANY_SIZE = 2**40
_OF_THE_CLOCK = (
    "coordinator_deaths",
    "full_disks",
    "lost_mounts",
    "lost_answers",
    "in_writing:kill",
    "in_writing:pause",
    "in_writing:power_cut",
    "partitions",
    "pauses",
    "stale_reads",
    "vandalised_states",
    "forged_states",
    "obstructions",
    "beating_claims",
)
"""Faults after which a clock may stand still, jump or be restored."""


_OF_A_POOL = ("vandals", "power_cuts", "in_writing:power_cut", "lost_mounts")
"""Faults after which a pool may lack what lies there, or hold what does not."""
_MAY_END_IN = (m.Phase.LOADING, m.Phase.SAVING, m.Phase.DONE)
"""In these, a node gives up on a place that does not take what it has to write."""
_OF_WHAT_WAS_READ = ("vandalised_rollouts", "power_cuts", "in_writing:power_cut", "quitters", "coordinator_deaths")
"""Faults after which a file that somebody was trained on may be gone, or not be seen."""


class BrokenLawError(AssertionError):
    """Says what was broken, by whom, when, and how to see it again."""


class Laws:
    """Watches one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._truth = world.memory.open()
        self.strangers = StrangerLaws(world, self)
        self.cleaning = CleaningLaws(world, self)
        self.starting = StartingLaws(world, self)
        self._acknowledged: dict[str, dict[str, bytes]] = {}
        """Node -> key of its rollout file -> what it published."""
        self._round_of: dict[str, RoundKey] = {}
        """Question -> the round and stage in which some node is to ask it."""
        self._weights_after: dict[tuple[str, RoundKey], str] = {}
        """What a node's weights were after the update of a round."""
        self._rows: dict[str, tuple[str, list[MetricsRow]]] = {}
        """Of each node, as they are in its file of this tag."""
        self._lost: set[str] = set()
        """Nodes that could not redo all of their rounds, and have said so."""
        self._clock_of: dict[str, RoundKey] = {}
        """Where a coordinator's clock stands."""
        self.clock_has_opened = False
        """A coordinator has opened round 0, and no power cut takes that back."""
        self._disturbed_at = 0.0

    def broken(self, what: str, who: str, round_: int | None = None) -> BrokenLawError:
        """To be raised; the run ends with it, whoever catches it."""
        plan = self._world.plan
        where = "" if round_ is None else f" in round {round_}"
        error = BrokenLawError(
            f"{what}: {who}{where}, at {self._world.now:.2f} s of seed {plan.seed}; see it again with "
            f"python -m tests.simulation --seed {plan.seed} --runs 1 --workers {plan.workers} --trace"
        )
        self._world.fail(error)
        return error

    @contextmanager
    def of(self, host: Host) -> Iterator[None]:
        """What the machine of a node is asked, and does, is held against what it may do at all."""
        try:
            yield
        except BrokenLawError:
            raise
        except AssertionError as error:
            line = traceback.extract_tb(error.__traceback__)[-1].line
            raise self.broken(str(error) or f"expected {line}", host.name) from error

    # ── what is written ─────────────────────────────────────────────────────────────────────────────────────────────
    def writes(self, host: Host, key: str) -> None:
        """A host is about to write at a key, or below it."""
        if key.startswith(f"{ARCHIVE}/{keys.ROLLOUTS}/") and self._world.plan.cleanup == "archive":
            return
        owner = keys.owner_of(key)
        if owner == keys.JANITOR and self._world.plan.cleanup:
            return
        if owner == keys.ANYBODY or owner == host.name or (owner == keys.COORDINATOR and host.coordinates):
            return
        raise self.broken(f"it writes at {key}, which is {owner}'s", host.name)

    def puts(self, host: Host, key: str, data: bytes) -> None:
        if key.startswith(keys.ROLLOUTS):
            self._publishes(host, key, data)
        elif key.startswith(keys.REWARDS):
            self._rewards(host, key, data)
        elif key == keys.STATE and not host.life.paused:  # else it lands late, which no coordinator can know
            self._moves_the_state(host, decode(data, StateFile, key))
        self.strangers.puts(host, key, data)

    def has_put(self, host: Host, key: str, data: bytes, *, durable: bool) -> None:
        if key.startswith(keys.ROLLOUTS) and durable:
            self._acknowledged.setdefault(host.name, {})[key] = data
            self._names_what_is_there(host, key, data)
            self.nothing_acknowledged_is_lost(host.name)
        if key == keys.STATE and durable and not decode(data, StateFile, key).held:
            self.clock_has_opened = True

    def has_synced(self, host: Host, key: str) -> None:
        there = self._there(key)
        if key.startswith(keys.ROLLOUTS) and there is not None and self._is_own(there, host.name):
            self._acknowledged.setdefault(host.name, {})[key] = there

    def _names_what_is_there(self, host: Host, key: str, data: bytes) -> None:
        """A file that names groups comes when they are in place; what is written over afterwards is a vandal's."""
        if keys.group_file_of(key) or (named := keys.published_in(key)) is None:
            return
        for slot, sha256 in named_by(decode(data, RolloutFile, key)).items():
            self._world.injected["named_groups"] += 1
            place = keys.group_file(named[0], host.name, slot)
            there = self._there(place)
            if there is None and self.cleaning.has_removed(place):
                continue  # its author is far behind
            spoilt = there is None or not self._is_own(there, host.name)
            if there is not None and not spoilt and digest(there) != sha256:
                raise self.broken(f"it names another group than it has published ({place})", host.name, named[0].round)
            if spoilt and not self._world.injected["vandalised_rollouts"]:
                raise self.broken(f"it names a group that is not there ({place})", host.name, named[0].round)

    def _publishes(self, host: Host, key: str, data: bytes) -> None:
        there = self._there(key)
        if there is None or there == data or not self._is_own(there, host.name):
            return
        if not (self._world.injected["vandalised_rollouts"] and _same_groups(there, data, key)):
            raise self.broken(f"a published rollout file is changed ({key})", host.name)

    def removes(self, host: Host, key: str) -> None:
        """A host is about to take a key away, or all below it."""
        if key.startswith(keys.ROLLOUTS) or (key.startswith(keys.COMPLETIONS) and keys.owner_of(key) != host.name):
            self.cleaning.removes(host, key)
        else:
            self.writes(host, key)

    def acknowledged_below(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """What was published there, and acknowledged."""
        for published in self._acknowledged.values():
            yield from ((key, data) for key, data in published.items() if f"{key}/".startswith(f"{prefix}/"))

    def nothing_acknowledged_is_lost(self, node: str) -> None:
        for key, data in self._acknowledged.get(node, {}).items():
            there = self._there(key)
            if there is None and self.cleaning.may_be_gone(key, data):
                continue
            vandalised = self._world.injected["vandalised_rollouts"]  # its author writes it anew, at another time
            if there is None or (there != data and self._is_own(there, node) and not vandalised):
                raise self.broken(f"an acknowledged rollout file is lost ({key})", node)

    def _is_own(self, data: bytes, node: str) -> bool:
        """It is no vandal's."""
        try:
            return decode(data, RolloutFile, "").peer_id == node
        except ProtocolError:
            return False

    def _get(self, key: str, limit: int) -> bytes:
        return self._truth.get(key, limit).data

    def _there(self, key: str) -> bytes | None:
        try:
            return self._truth.get(key, ANY_SIZE).data
        except (FileNotFoundError, ProtocolError):  # something else stands there
            return None

    # ── rows and rewards ────────────────────────────────────────────────────────────────────────────────────────────
    def rows_of(self, node: str) -> list[MetricsRow]:
        """As they are in the node's file now."""
        entry = self._truth.stat(keys.metrics(node))
        if entry is None or entry.kind is not Kind.FILE:
            return []
        tag, rows = self._rows.get(node, ("", []))
        if tag != entry.tag:
            records = self._truth.read_records(keys.metrics(node)).records
            rows = [msgspec.json.decode(record, type=MetricsRow) for record in records]
            self._rows[node] = (entry.tag, rows)
        return rows

    def appends(self, host: Host, key: str, records: Sequence[bytes]) -> None:
        if key != keys.metrics(host.name):
            return
        rows = self.rows_of(host.name)
        for record in records:
            row = msgspec.json.decode(record, type=MetricsRow)
            if rows and row == rows[-1]:
                continue  # tried again
            if rows and row.key <= rows[-1].key:
                raise self.broken("a node's rounds go back, or one has two rows", host.name, row.round)
            self._counts_on(host.name, rows, row)
            self._drawn(host, row)

    def _counts_on(self, node: str, rows: Sequence[MetricsRow], row: MetricsRow) -> None:
        expected = sum(r.my_reward for r in rows) + row.my_reward
        if abs(row.cumulative_reward - expected) > 1e-6:
            raise self.broken(f"its cumulative reward is {row.cumulative_reward}, not {expected}", node, row.round)

    def _drawn(self, host: Host, row: MetricsRow) -> None:
        """Of all groups with an advantage that had arrived it trains on the first J, in the order that seed, node and
        round give them, however they came. (Where nobody writes anything odd.)
        """
        draw: m.Draw | None = host.draw  # type: ignore[attr-defined]
        odd = self.strangers.have_earned or any(self._world.injected[kind] for kind in _OF_A_POOL)
        odd = odd or (self._world.plan.one_by_one and self._world.injected["late"] > 0)  # a file before its groups
        if odd or draw is None or draw.key != (row.round, row.stage):
            return
        settings: Settings = host.settings()
        if settings.sampler != "uniform" or not host.drew_all:  # type: ignore[attr-defined]
            return
        for peer, key in draw.sources:
            if not self._there(keys.rollout(key, peer)) or (peer, *key) in host.refused:
                return  # cleaned up since, or a turn before was not there for it
        ranks = random_ranks(settings.seed, "external", host.name, *draw.key)
        before = {name for earlier in self.rows_of(host.name) for name in earlier.trained_on}
        rank: dict[str, int] = {}
        for peer, (round_, stage) in draw.sources:
            place = f"{peer}/{round_}/{stage}"
            rank |= {f"{place}/{slot}": number for slot, number in enumerate(ranks(place, settings.peer_slots))}
        there = (self._informative(draw) & rank.keys()) - before
        expected = sorted(there, key=rank.__getitem__)[: row.external_wanted]
        if row.trained_on != expected:
            raise self.broken(f"it trains on {row.trained_on}; drawn are {expected}", host.name, row.round)

    def _informative(self, draw: m.Draw) -> set[str]:
        """The names of the groups with an advantage in the files of these peers."""
        found = set()
        for peer, key in draw.sources:
            if data := self._there(keys.rollout(key, peer)):
                whole = put_together(decode(data, RolloutFile, ""), peer, key, self._get, most_bytes=ANY_SIZE)
                for slot, entries in whole.rollouts.items():
                    if is_informative([entry.reward or 0.0 for entry in entries]):
                        found.add(f"{peer}/{key.round}/{key.stage}/{slot}")
        return found

    def _rewards(self, host: Host, key: str, data: bytes) -> None:
        reward = decode(data, RewardFile, key)
        there = self._there(key)
        if there is not None and there != data and self._is_reward_of(there, host.name):
            raise self.broken("a reward is counted twice", host.name, reward.round)
        row = next((r for r in self.rows_of(host.name) if (r.round, r.stage) == (reward.round, reward.stage)), None)
        if row is None or row.my_reward != reward.reward:
            raise self.broken("a reward is submitted that is not that of a row", host.name, reward.round)

    def _is_reward_of(self, data: bytes, node: str) -> bool:
        try:
            return decode(data, RewardFile, "").peer_id == node
        except ProtocolError:
            return False

    # ── weights ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def updated(self, worker: WorkerHost, update: Update) -> None:
        """A policy was updated, in a round or in the redoing of one."""
        world, node = self._world, worker.name
        rounds = self._rounds_of(worker)
        if any(later <= earlier for earlier, later in pairwise(rounds)):
            raise self.broken(f"its weights hold a round twice, or out of order: {rounds}", node)
        key, rows = rounds[-1], self.rows_of(node)
        written = next((row for row in rows if (row.round, row.stage) == key), None)
        if written is None:
            self._learns(worker, key, update)
        elif node not in self._lost and not world.injected["vandalised_rollouts"]:
            self._comes_out_the_same(node, key, update)

    def _comes_out_the_same(self, node: str, key: RoundKey, update: Update) -> None:
        if update.weights != self._weights_after[node, key]:
            raise self.broken("a round is redone, and comes out as another one", node, key.round)

    def _learns(self, worker: WorkerHost, key: RoundKey, update: Update) -> None:
        """Of a round that is new. What was refused is tried again after LONGEST_PAUSE, unless its node stands still."""
        stood_still = worker.paused_for if worker.paused_until > worker.refused_at else 0.0
        refused = worker.refused_at >= worker.round_began_at - LONGEST_PAUSE - stood_still
        if not refused and not self._was_published(keys.rollout(key, worker.name), worker.name):
            raise self.broken("it trained before it tried to publish", worker.name, key.round)
        self._weights_after[worker.name, key] = update.weights
        if strange := {without_answers(prompt) for prompt in update.external} - set(self._round_of):
            raise self.broken(f"it trains on a question that nobody was to ask: {min(strange)}", worker.name, key.round)

    def _was_published(self, place: str, node: str) -> bool:
        """Its rollouts are there; or were, and went with those of old rounds while it was far behind."""
        published = self._acknowledged.get(node, {}).get(place)
        return self._there(place) is not None or (published is not None and self.cleaning.may_be_gone(place, published))

    def _rounds_of(self, worker: WorkerHost) -> list[RoundKey]:
        return self._keys_of(worker.policy.updates, worker.name)

    def _keys_of(self, updates: Sequence[Update], node: str) -> list[RoundKey]:
        rounds: list[RoundKey] = []
        for update in updates:
            if beyond := [prompt for prompt in update.own if without_answers(prompt) not in self._round_of]:
                raise self.broken(f"it does rounds that the experiment has not: {beyond[0]}", node)
            found = {self._key_of(prompt, node, rounds[-1:]) for prompt in update.own}
            if len(found) != 1:
                raise self.broken(f"it trains on own questions of rounds {sorted(found)} at once", node)
            rounds.append(found.pop())
        return rounds

    def _key_of(self, prompt: str, node: str, before: Sequence[RoundKey]) -> RoundKey:
        """Of a prompt without answers of a stage before, in a run of stages: the first stage of the round that can be
        meant, for there may have been none."""
        key = self._round_of[without_answers(prompt)]
        if self._world.plan.stages == 1:
            return key
        if (asked_again := prompt.removeprefix(without_answers(prompt))) != "":
            return key._replace(stage=int(asked_again.split()[1]))
        stages = (key._replace(stage=stage) for stage in range(self._world.plan.stages))
        after = [key for key in stages if not before or key > before[0]]
        asked = self._acknowledged.get(node, {})
        return next((key for key in after if keys.rollout(key, node) in asked), after[0])

    def knows_questions(self, node: str) -> None:
        """Take note of what a node is to ask."""
        plan = self._world.plan
        settings = plan.settings(node)
        assigned = questions_of(settings, Universe.of(TASKS, settings.profile))
        for key in (RoundKey(r) for r in range(plan.rounds + 1)):
            for request in assigned.questions(node, key, settings.most_local_groups):
                self._round_of[prompt_of(request)] = key

    def rounds_lost(self, worker: WorkerHost, why: str) -> None:
        """A node says that it could not redo some of its rounds."""
        self._lost.add(worker.name)
        if not self._may_be_lost():
            raise self.broken(f"it loses rounds although all of it is there: {why}", worker.name)

    def _may_be_lost(self) -> bool:
        """What a node trained on may be gone: somebody wrote over it, or its writer lost power before it lasted."""
        injected = self._world.injected
        return any(injected[kind] for kind in _OF_WHAT_WAS_READ)

    def resumed(self, worker: WorkerHost, following: RoundKey) -> None:
        """A node has loaded, and is about to go on."""
        rows = [RoundKey(row.round, row.stage) for row in self.rows_of(worker.name)]
        rounds = self._rounds_of(worker)
        if (lost := set(rows) - set(rounds)) and worker.name not in self._lost:
            raise self.broken("an update is not in the weights that a node goes on with", worker.name, min(lost).round)
        if untold := set(rounds) - set(rows):
            raise self.broken("a node goes on with an update that no row tells of", worker.name, min(untold).round)
        if rows and following <= max(rows):
            raise self.broken("a round is done again after a restart", worker.name, following.round)

    def saves(self, host: Host, prefix: str) -> None:
        """A checkpoint is in place: it says no more than the rows do."""
        weights = self._there(f"{prefix}/{WEIGHTS}")
        assert weights is not None
        told = {RoundKey(row.round, row.stage) for row in self.rows_of(host.name)}
        if untold := set(self._keys_of(read_weights(weights), host.name)) - told:
            raise self.broken("a checkpoint holds an update that no row tells of", host.name, min(untold).round)

    # ── the clock ───────────────────────────────────────────────────────────────────────────────────────────────────
    def _moves_the_state(self, host: Host, state: StateFile) -> None:
        """Nobody writes a round over a later one that it sees; what it sees may be stale, though."""
        seen = host.handle.sees(keys.STATE)
        try:
            there = None if seen is None else decode(seen, StateFile, "")
        except ProtocolError:
            return
        if there is None or self._world.injected["stale_reads"] or not self.strangers.is_genuine(seen):
            return
        if (there.round, there.stage) > (state.round, state.stage) and self._is_borne_out(host, there):
            raise self.broken(f"it writes the state back from round {there.round}", host.name, state.round)

    def _is_borne_out(self, host: Host, state: StateFile) -> bool:
        """Another coordinator, which lives, stands for it, and this one sees that, and rewards of the rounds before."""
        other, rounds = self._world.hosts[state.updated_by], range(max(0, state.round - TRACES), state.round)
        seen = (host.handle.sees(keys.reward(RoundKey(r), w.name)) for r in rounds for w in self._world.workers)
        cut_off = self._world.now - self._world.network.connected_since(other.name, host.name) < BOUND_FOLLOWING
        return other is not host and other.running and not cut_off and any(seen) and self._vouches(other, host, state)

    def _vouches(self, other: Host, host: Host, state: StateFile) -> bool:
        """The registration of one coordinator, as another sees it, says that it is there, and has beaten lately."""
        world, registration = self._world, host.handle.sees(keys.peer(other.name))
        beats = world.place.history.get(keys.peer(other.name), ())
        seen = [version.time for version in beats if world.network.sees(host.name, version)]
        if not seen or world.now - seen[-1] > world.plan.timeout:
            return False
        try:
            return registration is not None and decode(registration, PeerFile, "").round >= state.round
        except ProtocolError:
            return False

    def takes_over(self, coordinator: CoordinatorHost, key: RoundKey) -> None:
        state = self._state_that(coordinator)
        if state is not None and key < RoundKey(state.round, state.stage):
            raise self.broken(f"it takes the clock over before {state.round}, which the place says", coordinator.name)
        reached = self._reached(coordinator)
        front = sorted(reached.values(), reverse=True)
        if front and key < min(front[len(front) // 2], RoundKey(self._world.plan.rounds)):
            raise self.broken(f"it takes the clock over at {key}, but most have come to {front}", coordinator.name)
        self._clock_of[coordinator.name] = key
        self.disturbed(self._world.now)

    def _state_that(self, coordinator: CoordinatorHost) -> StateFile | None:
        """The state file as a coordinator read it, where it can be believed."""
        blob, injected = coordinator.handle.state_read, self._world.injected
        if injected["stale_reads"] and injected["obstructions"]:
            return None  # its writer's registration may have been put away for a moment, and that moment be seen later
        return decode(blob.data, StateFile, "") if blob and self.strangers.is_genuine(blob.data) else None

    def _reached(self, coordinator: CoordinatorHost) -> dict[str, RoundKey]:
        """How far each worker has come, by what this coordinator sees for sure: what is a while old."""
        world = self._world
        old = world.now - 30.0
        reached: dict[str, RoundKey] = {}
        for worker in world.workers:
            for row in self.rows_of(worker.name):
                key = RoundKey(row.round, row.stage)
                versions = world.place.history.get(keys.reward(key, worker.name), ())
                if any(v.time < old and world.network.sees(coordinator.name, v) for v in versions):
                    reached[worker.name] = key
        return reached if len(reached) == len(world.workers) else {}

    def decided(self, coordinator: CoordinatorHost, look: CoordinatorLook, decision: Decision | None) -> None:
        stood = self._clock_of[coordinator.name]
        if look.clock is not None:
            stood = max(stood, look.clock.key)
        if isinstance(decision, WriteState):
            self._may_be_written(coordinator.name, stood, look, decision)
            stood = decision.key
        self._clock_of[coordinator.name] = stood

    def _may_be_written(self, who: str, stood: RoundKey, look: CoordinatorLook, write: WriteState) -> None:
        plan, key = self._world.plan, write.key
        if key < stood:
            raise self.broken(f"the clock goes back from {stood}", who, key.round)
        following = RoundKey(stood.round, stood.stage + 1)
        if following.stage >= plan.stages:
            following = RoundKey(stood.round + 1)
        allowed = {"restored": stood, "opened": stood, "all_submitted": following, "interval": following}
        if write.reason == "caught_up":
            if look.front != key and not self.strangers.anybody_may():  # they may show more rounds than there are
                raise self.broken("the clock jumps to where most workers are not", who, key.round)
        elif write.reason == "interval" and not look.live:
            raise self.broken("the clock goes on although nobody is there", who, key.round)
        elif key != allowed[write.reason]:
            raise self.broken(f"the clock goes from {stood} to {key} ({write.reason})", who, key.round)
        if write.finished != (key.round >= plan.rounds):
            raise self.broken(f"finished is {write.finished}", who, key.round)

    # ── going on ────────────────────────────────────────────────────────────────────────────────────────────────────
    def disturbed(self, until: float) -> None:
        """Something befell all of them, or the coordinator."""
        self._disturbed_at = max(self._disturbed_at, until)

    def ended(self, host: Host, code: int, error: Exception | None) -> None:
        """A node has ended by itself."""
        if isinstance(error, BrokenLawError):
            return
        if code in (0, MissedError.exit_code) and not host.coordinates:
            self.strangers.ends(host)  # type: ignore[arg-type]
        if isinstance(error, DuplicateNodeError) and self.strangers.may_give_way(host):
            return
        if error is not None and (
            not isinstance(error, SwarmError) or isinstance(error, ConfigError | ExperimentError | DuplicateNodeError)
        ):
            said = "".join(traceback.format_exception(error)) if not isinstance(error, SwarmError) else ""
            raise self.broken(f"a node ends with {type(error).__name__}: {error}\n{said}", host.name) from error
        machine = getattr(host, "machine", None)
        if error is not None and not host.coordinates and machine and machine.phase not in _MAY_END_IN:
            raise self.broken(f"a node ends in {machine.phase} with {error}", host.name) from error
        if error is not None and self._world.now - max(host.refused_at, host.disturbed_at) > BOUND_REFUSED:
            raise self.broken(f"nothing is wrong, and a node ends with {error}", host.name) from error

    def still_goes_on(self, worker: WorkerHost) -> None:
        """As long as a worker lives and its disk works it does another round, and it follows a coordinator."""
        world, plan, machine = self._world, self._world.plan, worker.machine
        if machine is None or machine.phase in (m.Phase.SAVING, m.Phase.LOADING, m.Phase.DONE):
            return
        quiet_since = max(worker.progress_at, worker.disturbed_at, self._coordinators_disturbed_at())
        patience = plan.settings(worker.name).patience_with_coordinator
        bound = patience + plan.timeout + 2 * plan.interval + 5 * worker.slowness + BOUND_SLACK
        if world.now - quiet_since > bound:  # a node that went on alone waits for the clock to come where it is
            clocks = (s.round for s in self.states(since=quiet_since))
            ahead = max(0, machine.rounds_done - next(clocks, machine.rounds_done))
            if world.now - quiet_since > bound + ahead * plan.stages * plan.interval:
                raise self.broken(
                    f"it stands still in {machine.phase} since {quiet_since:.1f} s", worker.name, machine.rounds_done
                )
        if machine.on_own_clock and not plan.own_clock:
            self._nobody_to_follow(worker)

    def _coordinators_disturbed_at(self) -> float:
        return max([self._disturbed_at, *(coordinator.disturbed_at for coordinator in self._world.coordinators)])

    def _nobody_to_follow(self, worker: WorkerHost) -> None:
        if keeper := self.keeper_seen_by(worker):
            raise self.broken(f"it does not follow {keeper.name}, which is there", worker.name)

    def keeper_seen_by(self, worker: WorkerHost) -> CoordinatorHost | None:
        """A coordinator that keeps the clock, for so long that a worker must have seen it."""
        world = self._world
        for coordinator in world.coordinators:
            seen_since = max(
                coordinator.active_since,
                coordinator.disturbed_at,
                worker.disturbed_at,
                world.network.connected_since(coordinator.name, worker.name),
            )
            if coordinator.keeps_the_clock and world.now - seen_since > BOUND_FOLLOWING:
                return coordinator
        return None

    def within_time(self) -> None:
        if self._world.now > LONGEST_RUN:
            unfinished = [w.name for w in self._world.workers if not w.finished and w.name not in self._world.quitters]
            raise self.broken(f"the swarm does not end; {len(unfinished)} have not finished", unfinished[0])

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def at_the_end(self) -> None:
        """Everything once more, over the whole place."""
        world = self._world
        for worker in world.workers:
            self.nothing_acknowledged_is_lost(worker.name)
            rows = self.rows_of(worker.name)
            rounds = [row.key for row in rows]
            if rounds != sorted(set(rounds)):
                raise self.broken(f"its rows are of rounds {rounds}", worker.name)
            if worker.name in world.quitters:
                continue
            for row in rows:
                reward = self._there(keys.reward(RoundKey(row.round, row.stage), worker.name))
                if reward is None or decode(reward, RewardFile, "").reward != row.my_reward:
                    raise self.broken("a row without its reward", worker.name, row.round)
        self._visits_every_round()

    def states(self, since: float = 0.0) -> Iterator[StateFile]:
        for version in self._world.place.history.get(keys.STATE, ()):
            if version.time >= since and version.data is not None:
                try:
                    state = decode(version.data, StateFile, "")
                except ProtocolError:
                    continue
                yield state

    def _visits_every_round(self) -> None:
        """Where nothing befell the coordinator or what it sees, the clock visits every stage once, in order.

        A standby that sees the other's goodbye before its last state opens the round before once more.
        """
        world, plan = self._world, self._world.plan
        befell = (*_OF_THE_CLOCK, "reordered", "claims") if plan.standby else _OF_THE_CLOCK
        if plan.own_clock or self.strangers.have_earned or any(world.injected[kind] for kind in befell):
            return
        opened = [key for key, _ in groupby(RoundKey(s.round, s.stage) for s in self.states() if not s.held)]
        every = [RoundKey(r, s) for r in range(plan.rounds) for s in range(plan.stages)]
        if opened != [*every, RoundKey(plan.rounds)]:
            raise self.broken(f"the clock visits {opened}", "coordinator0")


def without_answers(prompt: str) -> str:
    """The question of a prompt, whatever its stage."""
    return prompt.partition("\n\nStage ")[0]


def _same_groups(one: bytes, other: bytes, key: str) -> bool:
    """Tells whether two files differ in their times alone: who finds a part of what it published written over publishes
    it anew."""
    first, second = (msgspec.structs.replace(decode(data, RolloutFile, key), timestamp=0.0) for data in (one, other))
    return first == second
