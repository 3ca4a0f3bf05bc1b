"""The shared folder: logs of what was written, in the order of writing. What anybody sees of it: network.py."""

from __future__ import annotations

from dataclasses import dataclass, field

from swarm.types import RoundKey, ScoredGroup
from swarm.wire.messages import PeerFile
from tests.simulation.network import Horizon


@dataclass(slots=True, eq=False)
class RolloutsFile:
    """`rollouts/round_R/stage_S/{owner}.json`."""

    time: float
    writer: str
    key: RoundKey
    owner: str
    content: str
    """Names the very draw that was published; rubbish has none."""
    groups: tuple[ScoredGroup, ...]
    gone: bool = False
    """Lost in a power cut, or written over."""


@dataclass(slots=True, eq=False)
class Reward:
    """`rewards/round_R/stage_S/{writer}.json`."""

    time: float
    writer: str
    key: RoundKey
    value: str
    gone: bool = False


@dataclass(slots=True, eq=False)
class State:
    """One version of `state/current_state.json`."""

    time: float
    writer: str
    key: RoundKey
    finished: bool = False
    held: bool = False
    torn: bool = False
    gone: bool = False


@dataclass(slots=True, eq=False)
class Row:
    """One line of a node's own metrics.jsonl."""

    key: RoundKey
    value: str
    trained_on: tuple[str, ...] = ()
    """The external groups, as the rows name them."""
    gone: bool = False

    @property
    def round(self) -> int:
        return self.key.round


@dataclass(slots=True, eq=False)
class Checkpoint:
    rounds_done: int
    weights: tuple[int, ...]
    """The rounds whose updates are in these weights, in order."""
    gone: bool = False


@dataclass
class Folder:
    """Everything that was ever written."""

    rollouts: list[RolloutsFile] = field(default_factory=list)
    rewards: list[Reward] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    beats: dict[str, list[tuple[float, PeerFile]]] = field(default_factory=dict)
    rows: dict[str, list[Row]] = field(default_factory=dict)
    checkpoints: dict[str, list[Checkpoint]] = field(default_factory=dict)
    _rollouts_at: dict[tuple[RoundKey, str], RolloutsFile] = field(default_factory=dict)
    _reward_at: dict[tuple[RoundKey, str], Reward] = field(default_factory=dict)

    # ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def put_rollouts(self, file: RolloutsFile) -> None:
        if before := self._rollouts_at.get((file.key, file.owner)):
            before.gone = True
        self._rollouts_at[file.key, file.owner] = file
        self.rollouts.append(file)

    def put_reward(self, reward: Reward) -> None:
        self._reward_at[reward.key, reward.writer] = reward
        self.rewards.append(reward)

    def beat(self, time: float, peer: PeerFile) -> None:
        self.beats.setdefault(peer.peer_id, []).append((time, peer))

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def rollouts_of(self, owner: str, key: RoundKey) -> RolloutsFile | None:
        """As the owner's own host has it."""
        file = self._rollouts_at.get((key, owner))
        return None if file is None or file.gone else file

    def reward_of(self, node: str, key: RoundKey) -> Reward | None:
        reward = self._reward_at.get((key, node))
        return None if reward is None or reward.gone else reward

    def rows_of(self, node: str) -> list[Row]:
        return [row for row in self.rows.get(node, ()) if not row.gone]

    def newest_checkpoint(self, node: str) -> Checkpoint | None:
        there = [checkpoint for checkpoint in self.checkpoints.get(node, ()) if not checkpoint.gone]
        return max(there, key=lambda checkpoint: checkpoint.rounds_done, default=None)

    def states_seen(self, horizon: Horizon, most: int) -> list[State]:
        """The latest versions that a reader could see, the newest first."""
        seen = []
        for state in reversed(self.states):
            if not state.gone and state.time <= horizon.of(state.writer):
                seen.append(state)
                if len(seen) == most:
                    break
        return seen

    def peers_seen(self, horizon: Horizon) -> list[PeerFile]:
        seen = []
        for node, beats in self.beats.items():
            reached = horizon.of(node)
            for time, peer in reversed(beats):
                if time <= reached:
                    seen.append(peer)
                    break
        return seen
