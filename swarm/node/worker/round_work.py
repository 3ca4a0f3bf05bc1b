"""The data of one round of one worker, as far as it has come; metrics_row.py makes a row of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import fmean

import anyio

from swarm.algo.advantages import Scaling, group_advantages
from swarm.algo.split import Split
from swarm.types import RolloutGroup, RoundKey, ScoredGroup, TrainGroup, TrainReport


@dataclass
class RoundWork:
    """Filled from left to right as the round goes on; times are monotonic seconds."""

    key: RoundKey
    split: Split
    """I and J of the round."""
    ahead: bool = False
    """Generated before the round was open, one update earlier."""
    clock: str = "coordinator"
    """Who opened the round: a `coordinator`, or the node on its `own`."""
    started: float = 0.0
    waited: float = 0.0
    """Seconds between the end of the round before and the start of this one."""
    groups: list[RolloutGroup] = field(default_factory=list)
    skipped: bool = False
    """Prepared ahead, and then the clock left this round out."""
    published: bool = False
    """The node died in this round after it had published: its groups are in the folder."""
    adopted: bool = False
    """They were taken from there, since the policy did not write the same again."""
    rounds_trained: int = 0
    """Updates behind the policy that generated the groups."""
    own: list[ScoredGroup] = field(default_factory=list)
    queued: anyio.Event = field(default_factory=anyio.Event)
    """Set when the generation is in the executor's queue, or needs none."""
    scored: anyio.Event = field(default_factory=anyio.Event)
    """Set when `own` is complete."""
    begun: anyio.Event = field(default_factory=anyio.Event)
    """Set when the gradients of `own` are added up."""
    external: list[ScoredGroup] = field(default_factory=list)
    pool: list[ScoredGroup] = field(default_factory=list)
    heard: frozenset[str] = frozenset()
    """Peers whose groups are in the pool, or were refused."""
    awaited: frozenset[str] = frozenset()
    """Live peers that were worth waiting for when the gathering ended."""
    timed_out: bool = False
    late: bool = False
    report: TrainReport | None = None
    bytes_published: int = 0
    killed: int = 0
    errors: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By step: generate, score, publish, gather, train."""
    gather_from: float = 0.0

    @property
    def my_reward(self) -> float:
        """Mean reward per completion on the own questions."""
        return mean(reward for scored in self.own for reward in scored.rewards)


def mean(values: Iterable[float]) -> float:
    """Arithmetic mean, 0.0 of nothing."""
    collected = list(values)
    return fmean(collected) if collected else 0.0


def to_train(scored: ScoredGroup, *, external: bool, scaling: Scaling) -> TrainGroup:
    """Rewards become group-relative advantages."""
    return TrainGroup(
        prompt=scored.group.question.prompt,
        completions=scored.group.completions,
        advantages=group_advantages(scored.rewards, scaling),
        external=external,
        tokenizer=scored.group.tokenizer,
    )


def mean_rewards(groups: Iterable[ScoredGroup]) -> dict[str, float]:
    """Mean verified reward per completion, by peer."""
    by_peer: dict[str, list[float]] = defaultdict(list)
    for scored in groups:
        by_peer[scored.group.peer_id].extend(scored.rewards)
    return {peer: mean(rewards) for peer, rewards in by_peer.items()}
