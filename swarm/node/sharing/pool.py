"""The swarm pool: peers' groups as far as they were fetched and verified, by round, stage and peer. Pure.

    a file is put in ─▶ its groups are held, unverified ─settle─▶ verified, or refused: nothing

What a slot holds is a verified group, nothing, or not known yet: the file was not read, or the group not verified.

All together take a bounded number of bytes. Where they would take more, the largest file goes, and so on: what stays
are the smallest files that fit, in whatever order they came, so that nobody is put out by who brings more than he does.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from sys import getsizeof
from typing import NamedTuple

import msgspec

from swarm.algo.advantages import is_informative
from swarm.algo.drawing import NO_GROUP, NoGroup
from swarm.types import Completion, RolloutGroup, RoundKey, ScoredGroup
from swarm.wire.codec import Claims
from swarm.wire.keys import is_node_id

_NAME = re.compile(r"([^/]+)/([0-9]{1,9})/([0-9]{1,9})/([0-9]{1,9})")


class GroupName(NamedTuple):
    """Says where a rollout group was published, in the order in which groups are sorted.

    As text `peer/round/stage/slot`, as in the column `trained_on`.
    """

    key: RoundKey
    peer: str
    slot: int

    def __str__(self) -> str:
        return f"{self.peer}/{self.key.round}/{self.key.stage}/{self.slot}"


def name_of(group: RolloutGroup) -> GroupName:
    """Returns the name of a group."""
    return GroupName(RoundKey(group.round, group.stage), group.peer_id, group.slot)


def parse_names(texts: Iterable[str]) -> list[GroupName]:
    """Returns the names among these texts; what is none is left out."""
    matches = [match for text in texts if (match := _NAME.fullmatch(text)) and is_node_id(match[1])]
    return [GroupName(RoundKey(int(m[2]), int(m[3])), m[1], int(m[4])) for m in matches]


_OF_A_NUMBER, _OF_AN_OBJECT = 40, 64
"""Bytes: of an int or float in a tuple, of an object with a few fields."""


@dataclass
class _Held:
    group: RolloutGroup
    claims: Claims
    found: ScoredGroup | NoGroup | None = None


class Pool:
    """Keeps what was put in until it is forgotten."""

    def __init__(self, *, most_bytes: int) -> None:
        """`most_bytes`: what the texts of all groups may take in memory."""
        self._most_bytes = most_bytes
        self._files: dict[RoundKey, dict[str, dict[int, _Held]]] = {}
        self._sizes: dict[tuple[RoundKey, str], int] = {}

    def has(self, key: RoundKey, peer: str) -> bool:
        """Tells whether the peer's file for a stage was put in."""
        return peer in self._files.get(key, {})

    def put(
        self, key: RoundKey, peer: str, groups: Iterable[tuple[RolloutGroup, Claims]]
    ) -> list[tuple[RoundKey, str]]:
        """Take in the groups of one file, none of them verified yet; the first that comes for a peer and stage stays.

        Returns:
            The files whose groups had to go, perhaps this one: nothing more of them comes in.
        """
        if not self.has(key, peer):
            held = {group.slot: _Held(group, claims) for group, claims in groups}
            self._files.setdefault(key, {})[peer] = held
            self._sizes[key, peer] = sum(_bytes(one.group) for one in held.values())
        gone: list[tuple[RoundKey, str]] = []
        while sum(self._sizes.values()) > self._most_bytes:
            file = max(self._sizes, key=lambda file: (self._sizes[file], file))
            self.empty(*file)
            gone.append(file)
        return gone

    def empty(self, key: RoundKey, peer: str) -> None:
        """Empties a file: nothing of it is to be learned from."""
        self._files.setdefault(key, {})[peer] = {}
        self._sizes.pop((key, peer), None)

    def take_out(self, key: RoundKey, peer: str) -> None:
        """Takes a peer's file out of the pool, for it was none of the peer's: another one may come in."""
        self._files.get(key, {}).pop(peer, None)
        self._sizes.pop((key, peer), None)

    def unverified(self, key: RoundKey, peer: str, slots: Iterable[int]) -> list[tuple[RolloutGroup, Claims]]:
        """Returns the groups in these slots of a file that are to be verified."""
        file = self._files.get(key, {}).get(peer, {})
        held = [file[slot] for slot in sorted(slots) if slot in file]
        return [(one.group, one.claims) for one in held if one.found is None]

    def settle(self, name: GroupName, scored: ScoredGroup | None) -> None:
        """A group is verified, or refused (None)."""
        held = self._files.get(name.key, {}).get(name.peer, {}).get(name.slot)
        if held is None:
            return  # its file is gone meanwhile
        self._sizes[name.key, name.peer] -= _bytes(held.group)
        held.found = NO_GROUP if scored is None else _worth_keeping(scored)
        held.group = held.found.group if isinstance(held.found, ScoredGroup) else _without_texts(held.group)
        self._sizes[name.key, name.peer] += _bytes(held.group)

    def found(self, name: GroupName) -> ScoredGroup | NoGroup | None:
        """Returns what is known of a slot: its group, NO_GROUP, or None where nothing is known yet."""
        file = self._files.get(name.key, {}).get(name.peer)
        if file is None:
            return None
        return file[name.slot].found if name.slot in file else NO_GROUP

    def forget_before(self, key: RoundKey) -> None:
        """Drop earlier rounds."""
        self._files = {k: peers for k, peers in self._files.items() if k >= key}
        self._sizes = {file: size for file, size in self._sizes.items() if file[0] >= key}


def each_once(groups: list[ScoredGroup]) -> list[ScoredGroup]:
    """Keeps the first of groups with an advantage that are the same, word for word: where others than the questions
    drawn for a node are admitted, or all nodes are asked the same, who copied whom cannot be told."""
    seen = dict[bytes, GroupName]()
    return [
        scored
        for scored in groups
        if not is_informative(scored.rewards)
        or seen.setdefault(_content(scored.group), name_of(scored.group)) == name_of(scored.group)
    ]


def _content(group: RolloutGroup) -> bytes:
    texts = [group.question.prompt, *(_texts(completion) for completion in group.completions)]
    return hashlib.blake2b(msgspec.json.encode(texts), digest_size=16).digest()


def _texts(completion: Completion) -> list[str]:
    """Returns all texts of a completion's conversation, the model's and those said to it."""
    return [*(text for turn in completion.earlier for text in (turn.text, turn.reply)), completion.text]


def _bytes(group: RolloutGroup) -> int:
    """Estimates the bytes that a group takes in memory with its rewards, rather too high than too low.

    One character beyond Latin-1 makes all of its text two or four times as large.
    """
    said = (text for one in group.completions for text in _texts(one))
    texts = (group.question.prompt, group.question.answer or "", *said)
    turns = [turn for one in group.completions for turn in one.every_turn]
    numbers = sum(len(turn.token_ids or ()) + len(turn.logprobs or ()) for turn in turns)
    objects = 8 + 4 * len(turns)
    return sum(map(getsizeof, texts)) + _OF_A_NUMBER * numbers + _OF_AN_OBJECT * objects


def _worth_keeping(scored: ScoredGroup) -> ScoredGroup:
    """Leaves out the texts of a group without any advantage: nobody trains on it, so only the rewards have to stay in
    memory."""
    if is_informative(scored.rewards):
        return scored
    return msgspec.structs.replace(scored, group=_without_texts(scored.group))


def _without_texts(group: RolloutGroup) -> RolloutGroup:
    question = msgspec.structs.replace(group.question, prompt="")
    return msgspec.structs.replace(group, question=question, completions=())
