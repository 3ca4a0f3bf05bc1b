"""Groups without any text: enough for the real sampler."""

from __future__ import annotations

from collections.abc import Iterable

from swarm.algo.sampling import sample_external
from swarm.algo.seeds import derive_random, derive_seed
from swarm.types import Origin, Question, RolloutGroup, RoundKey, ScoredGroup

GROUPS = 1
_QUESTION = Question("", Origin("", "tiny", 0, 0, ""))
_REWARDS = ((0.0, 1.0), (1.0, 0.0, 0.0), (0.0, 0.0))
"""The last teach nothing."""


def own_groups(node: str, key: RoundKey) -> tuple[ScoredGroup, ...]:
    """What a node publishes for a round, scored: the same for every reader."""
    luck = derive_seed(0, node, *key)
    return tuple(
        ScoredGroup(
            RolloutGroup(node, *key, slot, _QUESTION, ()), _REWARDS[(luck + slot) % len(_REWARDS)], (True, True)
        )
        for slot in range(GROUPS)
    )


def external_groups_of(
    node: str, key: RoundKey, count: int, pool: Iterable[ScoredGroup]
) -> list[tuple[str, RoundKey, int]]:
    """Which groups of the pool a node trains on, by the real sampler and its real draw."""
    sampled = sample_external(list(pool), count, derive_random(0, "external", node, *key))
    return [(s.group.peer_id, RoundKey(s.group.round, s.group.stage), s.group.slot) for s in sampled]
