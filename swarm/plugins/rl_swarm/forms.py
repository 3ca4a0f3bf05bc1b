"""The files of a run made by rl-swarm, as far as they are read; every field that some version lacks has a default."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from swarm.wire.kinds import Count


class CurrentState(msgspec.Struct):
    """`state/current_state.json`. Its coordinator advances it by time alone, whatever the workers do."""

    round: Count
    created_at: float = 0.0


class Registration(msgspec.Struct):
    """`peers/{node}.json`, written once; there is no heartbeat."""

    peer_id: str
    registered_at: float
    node_role: str = "worker"


class Reward(msgspec.Struct):
    """`rewards/round_R/stage_S/{node}.json`."""

    round: Count
    stage: Count
    reward: int | float
    """Sum over completions. A whole number was truncated by its writer; with SUBMIT_PERIOD_HOURS it is the sum of
    several rounds."""
    peer_id: str
    submitted_at: float


class MetricsLine(msgspec.Struct):
    """One line of `logs/{node}/metrics.jsonl`, or metrics.json: the summary of a round, the detail of a stage, or what
    the adaptive rule says."""

    timestamp: float
    round: Count
    stage: Count = 0
    my_reward: float | None = None
    """Sum over completions; versions before 16 November 2025 added 1 to every positive one (rewards)."""
    mean_reward: float | None = None
    """Over agents and not over completions. Versions that write it add no 1."""
    stage_reward: float | None = None
    """Sum over the completions of one stage."""
    num_samples: Count | None = None
    """Completions of that stage."""
    adaptive_I: Count | None = None
    adaptive_J: Count | None = None
    adaptive_J_continuous: float | None = None


class ProgressLine(msgspec.Struct):
    """One line of `progress_{node}.json`."""

    timestamp: float
    event: str
    total_rounds: int | None = None
    """Rounds of `training_complete`: the rounds that were asked for, whether or not they were done."""
    error_message: str = ""


class States(msgspec.Struct):
    """Holds what is read of a question."""

    question: Any = ""
    answer: Any = None
    metadata: Any = None


class WorldState(msgspec.Struct):
    """A question."""

    environment_states: States


class Payload(msgspec.Struct):
    """One group: a question and its completions."""

    world_state: WorldState
    actions: list[str]


class Rollouts(msgspec.Struct):
    """`rollouts/round_R/stage_S/{node}.json`. Versions before 8 November 2025 wrote `{}` for each payload."""

    peer_id: str
    round: Count
    stage: Count
    timestamp: float
    rollouts: dict[str, list[Payload]]


class StartOutput(NamedTuple):
    """Holds what a node printed at its start."""

    model: str = ""
    local_groups: int = 0
    """I; 0: not said."""
    external_groups: int = 0
    generations: int = 0
    max_rounds: int = 0

    @property
    def completions(self) -> int:
        """Returns the completions of one round with one stage; 0: not said."""
        return self.local_groups * self.generations


_MODEL = re.compile(rb" Model: (\S.*)")
_CONFIG = re.compile(rb"Training Config: I=(\d{1,6}), J=(\d{1,6}), G=(\d{1,6})")
_ROUNDS = re.compile(rb"Max Rounds: (\d{1,9})")


def said_in(lines: list[bytes]) -> StartOutput:
    """Read what a node printed; of several starts the last one counts."""
    said = StartOutput()
    for line in lines:
        if found := _CONFIG.search(line):
            said = said._replace(local_groups=int(found[1]), external_groups=int(found[2]), generations=int(found[3]))
        elif found := _ROUNDS.search(line):
            said = said._replace(max_rounds=int(found[1]))
        elif (found := _MODEL.search(line)) and b"Using Model" not in line:
            said = said._replace(model=_model_name(found[1].decode("utf-8", "replace").strip()))
    return said


def _model_name(said: str) -> str:
    """A local path means nothing to others: its last part is the name."""
    return said.rstrip("/").rpartition("/")[2] if said.startswith(("/", ".", "~")) else said
