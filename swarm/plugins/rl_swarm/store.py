"""A run made by rl-swarm as a store of our keys and forms, to read and nothing else.

experiment.json                   made from the clock, the registrations and what the nodes printed
state/current_state.json          not there: rl-swarm's clock is a timer, and says nothing of what was done
peers/{node}.json                 in our form; last seen when the node last wrote
rollouts/, rewards/               the same keys, each file in our form; rewards are means per completion
logs/{node}/metrics.jsonl         one row per round whose reward is known
logs/{node}/training_events.jsonl from progress_{node}.json
anything else                     as it lies there
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import msgspec

from swarm.errors import ProtocolError, StoreError
from swarm.plugins.rl_swarm.forms import Payload, StartOutput
from swarm.plugins.rl_swarm.nodes import NodeFacts, events_of, is_coordinator, peer_of, rounds_of, rows_of
from swarm.plugins.rl_swarm.rewards import KnownReward, Unknown, measure_file
from swarm.plugins.rl_swarm.run import RlSwarmRun
from swarm.store.base import (
    MOST_PER_READ,
    PAGE,
    Blob,
    Entry,
    Facts,
    Hint,
    Page,
    Prefixes,
    Records,
    Store,
    bytes_of_end,
)
from swarm.wire import keys
from swarm.wire.codec import encode
from swarm.wire.messages import ExperimentFile, GroupInfo, PolicyInfo, RewardFile, RolloutEntry, RolloutFile

RL_SWARM = "rl-swarm"


class _Lines(NamedTuple):
    lines: list[bytes]
    torn: bool = False


class RlSwarmStore:
    """Reads as the store below it, each file in our form. Writing raises StoreError."""

    def __init__(self, store: Store, experiment: str) -> None:
        self._store = store
        self._experiment = experiment
        self.made_by = RL_SWARM
        self.run = RlSwarmRun(store)
        self._rewards: dict[str, tuple[NodeFacts, dict[int, KnownReward | Unknown]]] = {}
        """Node -> what it was read as, and its rewards by round."""

    def describe(self, key: str = "") -> str:
        return self._store.describe(key)

    def get(self, key: str, limit: int) -> Blob:
        if (data := self._made(key)) is None:
            return self._store.get(key, limit)
        if len(data) > limit:
            raise ProtocolError("oversized", f"{self.describe(key)} has {len(data)} bytes, the limit is {limit}")
        return Blob(data, f"{zlib.crc32(data):x}")

    def get_to_file(self, key: str, target: Path, limit: int) -> None:
        self._store.get_to_file(key, target, limit)

    def stat(self, key: str) -> Entry | None:
        return None if key == keys.STATE else self._store.stat(key)

    def list(self, prefix: str, *, after: str = "", limit: int = PAGE, tags: bool = False) -> Page:
        return self._store.list(prefix, after=after, limit=limit, tags=tags)

    def open_bundle(self, prefix: str) -> AbstractContextManager[Path]:
        return self._store.open_bundle(prefix)

    def read_records(self, key: str, cursor: str = "", limit: int = MOST_PER_READ) -> Records:
        """Made lines are made anew; where those behind the cursor are others by now, they are read from the start."""
        if (made := self._made_lines(key)) is None:
            return self._store.read_records(key, cursor, limit)
        lines, torn = made
        cursor = "" if bytes_of_end(cursor) else cursor  # all of them: they are few
        seen, _, _ = cursor.partition(":")
        behind = int(seen or 0)
        if cursor and cursor != _cursor(lines[:behind], behind):
            return Records(lines, _cursor(lines, len(lines)), torn, restarted=True)
        return Records(lines[behind:], _cursor(lines, len(lines)), torn)

    async def watch(self, prefixes: Sequence[str], interval: float, hint: Hint, among_them: Prefixes = tuple) -> None:
        await self._store.watch(prefixes, interval, hint, among_them)

    def facts(self) -> Facts:
        return self._store.facts()

    # ── what is made ────────────────────────────────────────────────────────────────────────────────────────────────
    def _made(self, key: str) -> bytes | None:
        """Returns the file in our form; None: as it lies there."""
        first, _, rest = key.partition("/")
        if key == keys.EXPERIMENT:
            return encode(self._experiment_file())
        if key == keys.STATE:
            raise FileNotFoundError(key)
        if first == keys.PEERS and (node := keys.node_of(rest)):
            return self._peer(key, node)
        if first not in (keys.ROLLOUTS, keys.REWARDS) or not (node := keys.owner_of(key)):
            return None
        return self._rollouts(key, node) if first == keys.ROLLOUTS else self._reward(key, node)

    def _made_lines(self, key: str) -> _Lines | None:
        """Returns the lines of a growing file, and whether it ends in half of one; None: as it lies there."""
        parts = key.split("/")
        if len(parts) != 3 or parts[0] != keys.LOGS:
            return None
        node = parts[1]
        if key == keys.metrics(node):
            facts = self.run.facts(node)
            return _Lines([*rows_of(facts, self._experiment)], facts.torn)
        return _Lines([*events_of(self.run.facts(node))]) if key == keys.events(node) else None

    def _experiment_file(self) -> ExperimentFile:
        facts = [self.run.facts(node) for node in self.run.nodes()]
        said = next((one.said for one in facts if one.said.generations and not is_coordinator(one)), StartOutput())
        began = [one.registration.registered_at for one in facts if one.registration]
        clock = self.run.clock()
        names = ("local_groups", "external_groups", "generations", "max_rounds")
        return ExperimentFile(
            experiment_name=self._experiment,
            created_at=(clock and clock.created_at) or min(began, default=0.0),
            created_by=next((one.node for one in facts if is_coordinator(one)), ""),
            identity={"clock": "own"} | {name: getattr(said, name) for name in names if said.generations},
            made_by=RL_SWARM,
        )

    def _peer(self, key: str, node: str) -> bytes:
        self._store.get(key, MOST_PER_READ)  # raises where there is none, or no file
        if (peer := peer_of(self.run.facts(node))) is None:
            raise ProtocolError("malformed", f"{self.describe(key)} is no registration of {node}")
        return encode(peer)

    def _rollouts(self, key: str, node: str) -> bytes:
        file = self.run.rollouts(key)
        groups = [payload for of_question in file.rollouts.values() for payload in of_question]
        return encode(
            RolloutFile(
                peer_id=file.peer_id,
                round=file.round,
                stage=file.stage,
                timestamp=file.timestamp,
                rollouts={str(slot): _entries(group) for slot, group in enumerate(groups)},
                groups={str(slot): _info(group) for slot, group in enumerate(groups)},
                policy=PolicyInfo(model=self.run.latest(node).said.model),
            )
        )

    def _reward(self, key: str, node: str) -> bytes:
        file, facts = self.run.reward(key), self.run.latest(node)
        of_row = self._rewards_of(facts).get(file.round)
        if of_row is None:  # it may have been logged since
            facts = self.run.facts(node)
            of_row = self._rewards_of(facts).get(file.round)
        reward = measure_file(file, facts.completions, follows=isinstance(of_row, KnownReward))
        if isinstance(of_row, KnownReward) and of_row.total == file.reward:
            reward = of_row
        if isinstance(reward, Unknown):
            raise ProtocolError("malformed", f"{self.describe(key)}: {reward.why}")
        return encode(
            RewardFile(
                round=file.round,
                stage=file.stage,
                reward=reward.mean,
                peer_id=file.peer_id,
                submitted_at=file.submitted_at,
            )
        )

    def _rewards_of(self, facts: NodeFacts) -> dict[int, KnownReward | Unknown]:
        read, rewards = self._rewards.get(facts.node, (None, {}))
        if read is not facts:
            rewards = {done.number: done.reward for done in rounds_of(facts)}
            self._rewards[facts.node] = facts, rewards
        return rewards

    # ── what is refused ─────────────────────────────────────────────────────────────────────────────────────────────
    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise StoreError(f"{self.describe()} was made by {RL_SWARM}: it is read, and never written")

    put = put_bundle = append_records = open_log = sync = recover = remove = remove_prefix = _refuse


def _cursor(lines: list[bytes], count: int) -> str:
    return f"{count}:{zlib.crc32(b''.join(lines)):x}"


def _entries(group: Payload) -> list[RolloutEntry]:
    prompt = str(group.world_state.environment_states.question)
    return [RolloutEntry(prompt=prompt, response=text) for text in group.actions]


def _info(group: Payload) -> GroupInfo:
    state = group.world_state.environment_states
    metadata = state.metadata
    task = metadata.get("source_dataset") if isinstance(metadata, dict) else None
    answer = state.answer
    return GroupInfo(
        task=task if isinstance(task, str) else "",
        answer=answer if isinstance(answer, str) else None,
        metadata=msgspec.Raw(msgspec.json.encode(metadata if isinstance(metadata, dict) else {})),
    )
