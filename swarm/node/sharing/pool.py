"""The swarm pool: the verified groups that a node may learn from, by round, stage and peer. Pure.

Whatever the order in which files arrive, and however often, the same sources give the same groups. So copies are told
from originals only when the groups are asked for, when all that is there to compare is there.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from swarm.algo.advantages import is_informative
from swarm.node.sharing.trained_groups import name_of
from swarm.types import RolloutGroup, RoundKey, ScoredGroup


class _Held(NamedTuple):
    scored: ScoredGroup
    content: bytes
    """Digest of the question and the completions."""


class Pool:
    """Keeps what was put in until it is forgotten."""

    def __init__(self, is_owner: Callable[[RolloutGroup], bool]) -> None:
        """`is_owner`: whether a group's question is the one that was drawn for its publisher, round and slot."""
        self._is_owner = is_owner
        self._held: dict[RoundKey, dict[str, list[_Held]]] = {}

    def put(self, key: RoundKey, peer: str, groups: Iterable[ScoredGroup]) -> None:
        """Take in the groups of one file; the first that comes for a peer and stage stays."""
        self._held.setdefault(key, {}).setdefault(
            peer, [_Held(_worth_keeping(scored), _content(scored.group)) for scored in groups]
        )

    def groups(self, sources: Sequence[tuple[str, RoundKey]]) -> tuple[list[ScoredGroup], list[RolloutGroup]]:
        """The groups of these peers for these rounds and stages, by name, and the copies among them.

        Of groups with the same question and the same completions those stay that answer what was drawn for them; where
        none does, the first by name.
        """
        wanted = [held for peer, key in set(sources) for held in self._held.get(key, {}).get(peer, [])]
        wanted.sort(key=lambda held: name_of(held.scored.group))
        same: dict[bytes, list[_Held]] = defaultdict(list)
        for held in wanted:
            same[held.content].append(held)
        copies = {name_of(group) for alike in same.values() for group in self._copies(alike)}
        originals = [held.scored for held in wanted if name_of(held.scored.group) not in copies]
        return originals, [held.scored.group for held in wanted if name_of(held.scored.group) in copies]

    def forget_before(self, key: RoundKey) -> None:
        """Drop earlier rounds."""
        self._held = {k: peers for k, peers in self._held.items() if k >= key}

    def _copies(self, alike: Sequence[_Held]) -> list[RolloutGroup]:
        if len(alike) == 1:
            return []
        groups = [held.scored.group for held in alike]
        owners = [group for group in groups if self._is_owner(group)] or groups[:1]
        return [group for group in groups if group not in owners]


def _content(group: RolloutGroup) -> bytes:
    texts = [group.question.prompt, *(completion.text for completion in group.completions)]
    return hashlib.blake2b(msgspec.json.encode(texts), digest_size=16).digest()


def _worth_keeping(scored: ScoredGroup) -> ScoredGroup:
    """Nobody trains on a group without any advantage: of most of a pool only the rewards have to stay in memory."""
    if is_informative(scored.rewards):
        return scored
    question = msgspec.structs.replace(scored.group.question, prompt="")
    return msgspec.structs.replace(
        scored, group=msgspec.structs.replace(scored.group, question=question, completions=())
    )
