"""The swarm pool: the verified groups that a node may learn from, by round, stage and peer. Pure.

Whatever the order in which files arrive, and however often, the same sources give the same groups. So copies are told
from originals only when the groups are asked for, when all that is there to compare is there.

All together take a bounded number of bytes. Where they would take more, the largest file goes, and so on: what stays
are the smallest files that fit, in whatever order they came, so that nobody is put out by who brings more than he does.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from sys import getsizeof
from typing import NamedTuple

import msgspec

from swarm.algo.advantages import is_informative
from swarm.node.sharing.trained_groups import name_of
from swarm.types import RolloutGroup, RoundKey, ScoredGroup

_OF_A_NUMBER, _OF_AN_OBJECT = 40, 64
"""Bytes: of an int or float in a tuple, of an object with a few fields."""


class _Held(NamedTuple):
    scored: ScoredGroup
    content: bytes
    """Digest of the question and the completions."""


class Pool:
    """Keeps what was put in until it is forgotten."""

    def __init__(self, is_owner: Callable[[RolloutGroup], bool], *, most_bytes: int) -> None:
        """Make an empty pool.

        Args:
            is_owner: whether a group's question is the one that was drawn for its publisher, round and slot.
            most_bytes: what the texts of all groups may take in memory.
        """
        self._is_owner = is_owner
        self._most_bytes = most_bytes
        self._held: dict[RoundKey, dict[str, list[_Held]]] = {}
        self._sizes: dict[tuple[RoundKey, str], int] = {}

    def put(self, key: RoundKey, peer: str, groups: Iterable[ScoredGroup]) -> list[tuple[RoundKey, str]]:
        """Take in the groups of one file; the first that comes for a peer and stage stays.

        Returns:
            The files whose groups had to go, perhaps this one: nothing more of them comes in.
        """
        if peer not in self._held.setdefault(key, {}):
            held = [_Held(_worth_keeping(scored), _content(scored.group)) for scored in groups]
            self._held[key][peer] = held
            self._sizes[key, peer] = sum(_bytes(one.scored) for one in held)
        gone: list[tuple[RoundKey, str]] = []
        while sum(self._sizes.values()) > self._most_bytes:
            file = max(self._sizes, key=lambda file: (self._sizes[file], file))
            del self._sizes[file]
            self._held[file[0]][file[1]] = []
            gone.append(file)
        return gone

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
        self._sizes = {file: size for file, size in self._sizes.items() if file[0] >= key}

    def _copies(self, alike: Sequence[_Held]) -> list[RolloutGroup]:
        if len(alike) == 1:
            return []
        groups = [held.scored.group for held in alike]
        owners = [group for group in groups if self._is_owner(group)] or groups[:1]
        return [group for group in groups if group not in owners]


def _content(group: RolloutGroup) -> bytes:
    texts = [group.question.prompt, *(completion.text for completion in group.completions)]
    return hashlib.blake2b(msgspec.json.encode(texts), digest_size=16).digest()


def _bytes(scored: ScoredGroup) -> int:
    """What a group takes in memory, rather too much than too little.

    One character beyond Latin-1 makes all of its text two or four times as large.
    """
    group = scored.group
    texts = (group.question.prompt, group.question.answer or "", *(one.text for one in group.completions))
    numbers = sum(len(one.token_ids or ()) + len(one.logprobs or ()) for one in group.completions)
    objects = 8 + 4 * len(scored.rewards)
    return sum(map(getsizeof, texts)) + _OF_A_NUMBER * numbers + _OF_AN_OBJECT * objects


def _worth_keeping(scored: ScoredGroup) -> ScoredGroup:
    """Nobody trains on a group without any advantage: of most of a pool only the rewards have to stay in memory."""
    if is_informative(scored.rewards):
        return scored
    question = msgspec.structs.replace(scored.group.question, prompt="")
    return msgspec.structs.replace(
        scored, group=msgspec.structs.replace(scored.group, question=question, completions=())
    )
