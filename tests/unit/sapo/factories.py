"""Scored groups that say no more than sampling looks at."""

from __future__ import annotations

from collections.abc import Sequence

from swarm.types import Completion, Origin, Question, RolloutGroup, ScoredGroup

INFORMATIVE = (0.0, 1.0)
UNINFORMATIVE = (1.0, 1.0)


def make_scored(
    peer: str = "anna", slot: int = 0, *, round_: int = 0, stage: int = 0, rewards: Sequence[float] = INFORMATIVE
) -> ScoredGroup:
    """One group, with as many completions as rewards."""
    group = RolloutGroup(
        peer_id=peer,
        round=round_,
        stage=stage,
        slot=slot,
        question=Question(prompt="1 + 1?", origin=Origin("basic_arithmetic", "tiny", slot, 0, "0.1.25")),
        completions=tuple(Completion(text=str(reward), finished=True) for reward in rewards),
    )
    return ScoredGroup(group, tuple(rewards), (True,) * len(rewards))


def make_pool(count: int) -> list[ScoredGroup]:
    """So many informative groups, by four peers."""
    return [make_scored(f"peer-{number % 4}", number // 4) for number in range(count)]
