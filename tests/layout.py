"""Paths of an experiment's files in a folder store, for tests that look at them or put there what no store would."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from swarm.store.place import EXPERIMENTS, open_place
from swarm.store.run import Run
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.trust import TRUSTING, Trust


@dataclass(frozen=True)
class Layout:
    """The paths of one experiment, each by its key."""

    path: Path
    experiment: str
    trust: Trust = field(default=TRUSTING, compare=False, repr=False)

    @property
    def run(self) -> Run:
        """The run, which need not be there."""
        return open_place(self.path).open(self.experiment, writer="test", trust=self.trust)

    @property
    def root(self) -> Path:
        return self.path / EXPERIMENTS / self.experiment

    def key(self, path: Path) -> str:
        """The key of a path of this experiment."""
        return path.relative_to(self.root).as_posix()

    def put(self, path: Path, data: bytes, writer: str = "test", *, durable: bool = True) -> None:
        """Write a file as this writer's store would."""
        open_place(self.path).open(self.experiment, writer).store.put(self.key(path), data, durable=durable)

    @property
    def experiment_file(self) -> Path:
        return self.root / keys.EXPERIMENT

    @property
    def state_file(self) -> Path:
        return self.root / keys.STATE

    @property
    def peers(self) -> Path:
        return self.root / keys.PEERS

    @property
    def rollouts(self) -> Path:
        return self.root / keys.ROLLOUTS

    @property
    def rewards(self) -> Path:
        return self.root / keys.REWARDS

    @property
    def judge_answers(self) -> Path:
        return self.root / keys.JUDGE_ANSWERS

    @property
    def judge_file(self) -> Path:
        return self.root / keys.JUDGED

    @property
    def exam_file(self) -> Path:
        return self.root / keys.EXAM

    @property
    def checkpoints(self) -> Path:
        return self.root / keys.CHECKPOINTS

    @property
    def logs(self) -> Path:
        return self.root / keys.LOGS

    def peer_file(self, node: str) -> Path:
        return self.root / keys.peer(node)

    def rollouts_of(self, key: RoundKey) -> Path:
        return self.root / keys.rollouts(key)

    def rollout_file(self, key: RoundKey, node: str) -> Path:
        return self.root / keys.rollout(key, node)

    def group_file(self, key: RoundKey, node: str, slot: int) -> Path:
        return self.root / keys.group_file(key, node, slot)

    def rewards_of(self, key: RoundKey) -> Path:
        return self.root / keys.rewards(key)

    def reward_file(self, key: RoundKey, node: str) -> Path:
        return self.root / keys.reward(key, node)

    def winners_of(self, round_: int) -> Path:
        return self.root / f"{keys.WINNERS}/round_{round_}"

    def winners_file(self, round_: int, node: str) -> Path:
        return self.root / keys.winners(round_, node)

    def judge_question_file(self, round_: int, node: str) -> Path:
        return self.root / keys.judge_question(round_, node)

    def judge_answer_file(self, round_: int, node: str) -> Path:
        return self.root / keys.judge_answer(round_, node)

    def checkpoint(self, rounds_done: int, node: str) -> Path:
        return self.root / keys.checkpoint(rounds_done, node)

    def metrics_file(self, node: str) -> Path:
        return self.root / keys.metrics(node)

    def events_file(self, node: str) -> Path:
        return self.root / keys.events(node)

    def stdout_file(self, node: str) -> Path:
        return self.root / keys.stdout(node)

    def temporary(self, node: str) -> Path:
        """Where this node's half-written files lie until they are renamed into place."""
        return self.root / keys.DRAFTS / node
