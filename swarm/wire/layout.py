"""Every path of the shared folder, and nothing else knows one; and whether its files have to be signed.

{path}/experiments/{experiment}/
  experiment.json                       the settings that make this experiment what it is
  state/current_state.json              the round clock; the coordinator active alone writes it
  peers/{node}.json                     registration and heartbeat
  rollouts/round_R/stage_S/{node}.json  the node's rollout groups
  rewards/round_R/stage_S/{node}.json   the node's mean reward
  winners/round_R/{node}.json           the node's vote
  judge/questions/round_R/{node}.json   the judge's held-out question to the node
  judge/answers/round_R/{node}.json     the node's answer to it
  checkpoints/round_R/{node}/           R rounds are done
  logs/{node}/metrics.jsonl, training_events.jsonl, stdout.log
  logs/judge/judge.jsonl                what the answers were worth
  exam.json                             held-out questions before and after the training
  .tmp/{node}/                          half-written files; same file system, never watched, never counted
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from swarm.config import JUDGE
from swarm.types import RoundKey
from swarm.wire.trust import TRUSTING, Trust

EXPERIMENTS = "experiments"
"""The folder of all experiments in a shared folder."""
_FOLDERS = frozenset(
    {"state", "peers", "rollouts", "completions", "rewards", "winners", "judge", "checkpoints", "logs", ".tmp"}
)
_FILES = frozenset({"experiment.json", "exam.json"})
"""Together all the names in an experiment's folder."""
_ROUND = re.compile(r"round_(0|[1-9][0-9]{0,8})")
_STAGE = re.compile(r"stage_(0|[1-9][0-9]{0,8})")
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def is_node_id(text: str) -> bool:
    """True for a node id that is safe as a file name: letters, digits, `_`, `-`, `.`, at most 64, no leading dot.

    Names that replication tools give to the losers of a conflict are none either.
    """
    return bool(_NODE.fullmatch(text)) and not text.endswith((".json", ".")) and ".sync-conflict-" not in text


def node_of(file_name: str) -> str | None:
    """The node that a `{node}.json` file speaks for, or None for a name that is not one (temporary, conflict copy)."""
    stem, dot, suffix = file_name.rpartition(".")
    return stem if dot and suffix == "json" and is_node_id(stem) else None


def round_of(folder_name: str) -> int | None:
    """The R of `round_R`, or None."""
    match = _ROUND.fullmatch(folder_name)
    return int(match[1]) if match else None


def stage_of(folder_name: str) -> int | None:
    """The S of `stage_S`, or None."""
    match = _STAGE.fullmatch(folder_name)
    return int(match[1]) if match else None


def split_at_experiment(path: Path) -> tuple[Path, tuple[str, ...]]:
    """The part of a path that is the user's own, an experiment's folder, and the names below it, which strangers write.

    Where a path could be read in two ways, less of it counts as the user's own. Without an experiment in it, all does.
    """
    parts = path.parts
    for at in range(len(parts) - 2):
        if parts[at] == EXPERIMENTS and parts[at + 2] in _FOLDERS | _FILES:
            return Path(*parts[: at + 2]), parts[at + 2 :]
    return path, ()


@dataclass(frozen=True)
class Layout:
    """The paths of one experiment."""

    path: Path
    experiment: str
    trust: Trust = field(default=TRUSTING, compare=False, repr=False)
    """How its files are sealed and judged by this process."""

    @property
    def root(self) -> Path:
        return self.path / EXPERIMENTS / self.experiment

    def key(self, path: Path) -> str:
        """The key of a path of this experiment."""
        return path.relative_to(self.root).as_posix()

    @property
    def experiment_file(self) -> Path:
        return self.root / "experiment.json"

    @property
    def state_file(self) -> Path:
        return self.root / "state" / "current_state.json"

    @property
    def peers(self) -> Path:
        return self.root / "peers"

    def peer_file(self, node: str) -> Path:
        return self.peers / f"{node}.json"

    @property
    def rollouts(self) -> Path:
        return self.root / "rollouts"

    def rollouts_of(self, key: RoundKey) -> Path:
        return self.rollouts / f"round_{key.round}" / f"stage_{key.stage}"

    def rollout_file(self, key: RoundKey, node: str) -> Path:
        return self.rollouts_of(key) / f"{node}.json"

    @property
    def rewards(self) -> Path:
        return self.root / "rewards"

    def rewards_of(self, key: RoundKey) -> Path:
        return self.rewards / f"round_{key.round}" / f"stage_{key.stage}"

    def reward_file(self, key: RoundKey, node: str) -> Path:
        return self.rewards_of(key) / f"{node}.json"

    def winners_of(self, round_: int) -> Path:
        return self.root / "winners" / f"round_{round_}"

    def winners_file(self, round_: int, node: str) -> Path:
        return self.winners_of(round_) / f"{node}.json"

    @property
    def judge_questions(self) -> Path:
        return self.root / "judge" / "questions"

    def judge_questions_of(self, round_: int) -> Path:
        return self.judge_questions / f"round_{round_}"

    def judge_question_file(self, round_: int, node: str) -> Path:
        return self.judge_questions_of(round_) / f"{node}.json"

    @property
    def judge_answers(self) -> Path:
        return self.root / "judge" / "answers"

    def judge_answers_of(self, round_: int) -> Path:
        return self.judge_answers / f"round_{round_}"

    def judge_answer_file(self, round_: int, node: str) -> Path:
        return self.judge_answers_of(round_) / f"{node}.json"

    @property
    def judge_file(self) -> Path:
        return self.logs / JUDGE / "judge.jsonl"

    @property
    def exam_file(self) -> Path:
        return self.root / "exam.json"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    def checkpoint(self, rounds_done: int, node: str) -> Path:
        return self.checkpoints / f"round_{rounds_done}" / node

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    def metrics_file(self, node: str) -> Path:
        return self.logs / node / "metrics.jsonl"

    def events_file(self, node: str) -> Path:
        return self.logs / node / "training_events.jsonl"

    def stdout_file(self, node: str) -> Path:
        return self.logs / node / "stdout.log"

    def temporary(self, node: str) -> Path:
        """Where this node's half-written files lie until they are renamed into place."""
        return self.root / ".tmp" / node
