"""Remembers the external groups a node has trained on, so that none is trained on twice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

from swarm.types import RolloutGroup, RoundKey, ScoredGroup
from swarm.wire.keys import is_node_id
from swarm.wire.messages import MetricsRow

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


class TrainedGroups:
    """Remembers groups by name, for as long as they may come again."""

    def __init__(self) -> None:
        self._names: set[GroupName] = set()

    @property
    def names(self) -> Set[GroupName]:
        """Returns the names of all groups that were trained on."""
        return self._names

    def add(self, groups: Iterable[ScoredGroup]) -> None:
        """Notes that these groups are trained on now."""
        self._names |= {name_of(scored.group) for scored in groups}

    def recall(self, rows: Sequence[MetricsRow]) -> None:
        """Takes up the groups that were trained on before a restart, out of the node's rows."""
        self._names.update(name for row in rows for name in parse_names(row.trained_on))

    def forget_before(self, round_: int) -> None:
        """Groups of earlier rounds do not come again."""
        self._names = {name for name in self._names if name.key.round >= round_}
