"""An intake on a real folder, without a node around it."""

from __future__ import annotations

import math
from collections.abc import Collection, Set
from typing import Any

import anyio

from swarm.errors import ProtocolError
from swarm.node.sharing.admission import AssignedQuestions
from swarm.node.sharing.examination import FileNews
from swarm.node.sharing.intake import Intake, WantedDraw
from swarm.node.sharing.pool import GroupName, name_of
from swarm.node.sharing.verification import TaskSource
from swarm.tasks.universe import Mixture
from swarm.types import RoundKey, ScoredGroup
from swarm.wire.codec import encode
from swarm.wire.messages import RolloutFile
from tests.layout import Layout
from tests.patience import PATIENCE
from tests.unit.node.factories import DRAWS, FakeTaskSource, put
from tests.unit.node.nodes import make_context

R0 = RoundKey(0)
ME = "alice"


class TestedIntake:
    """Looks when told to, and remembers who arrived."""

    __test__ = False

    def __init__(self, layout: Layout, source: TaskSource | None = None, **settings: Any) -> None:
        self.layout = layout
        self.source = source or FakeTaskSource()
        self.arrived: list[tuple[RoundKey, str]] = []
        self.silent: list[tuple[RoundKey, str]] = []
        """What was no file that can be taken."""
        self.intake = Intake(make_context(layout, ME, **settings), DRAWS, self.source, self._on_news)
        self.valid: list[tuple[RoundKey, str]] = []
        """What a verified group was found in."""
        self._found: dict[GroupName, ScoredGroup] = {}

    def _on_news(self, key: RoundKey, peers: Set[str], news: FileNews) -> None:
        told = {FileNews.THERE: self.arrived, FileNews.NOT_THEIRS: self.silent, FileNews.VALID: self.valid}
        told[news].extend((key, peer) for peer in sorted(peers))

    async def look(self, *keys: RoundKey, live: Collection[str] = (), slots: int = 64) -> None:
        """Look once, and examine all of the files that were found."""
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                await self.intake.look(set(keys or (R0,)), frozenset(live), tasks)
                for key in keys or (R0,):
                    there = [(peer, key) for peer in sorted(self.intake.listed(key) - {ME})]
                    sample = await self.intake.draw(everything(slots), there, math.inf, tasks)
                    found = {name_of(scored.group): scored for scored in sample.groups}
                    self._found = {name: one for name, one in self._found.items() if name.key != key} | found

    def groups(self, *peers: str, key: RoundKey = R0) -> list[ScoredGroup]:
        """Those of these peers that the last look found, by name."""
        return [self._found[name] for name in sorted(self._found) if name.peer in peers and name.key == key]

    def refused(self, round_: int = 0) -> dict[str, dict[str, int]]:
        """By peer and reason, since the last call."""
        return self.intake.close_round(round_).refused_named()


def everything(slots: int = 64) -> WantedDraw:
    """A draw that looks at all groups."""
    return WantedDraw(slots, None, frozenset(), ("test",))


class TrustsTabs:
    """Signatures without keys: a file is its author's if it ends in a tab, which JSON takes for a space."""

    asks = True

    def seal(self, data: bytes, key: str) -> bytes:
        return data + b"\t"

    def check(self, data: bytes, key: str) -> None:
        if not data.endswith(b"\t"):
            raise ProtocolError("unsigned", f"{key} does not end in a tab")


def publish(layout: Layout, file: RolloutFile, peer: str = "", key: RoundKey | None = None) -> None:
    """Put a file where its node would, or under another name or round."""
    put(layout.rollout_file(key or RoundKey(file.round, file.stage), peer or file.peer_id), encode(file))


class Anything:
    """Is equal to every question."""

    def __eq__(self, _: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class AnyQuestions(AssignedQuestions):
    """Draws whatever a file asks: what its answers do to a scorer is looked at, not whether it was drawn."""

    def questions(self, node: str, key: RoundKey, count: int, mixture: Mixture | None = None) -> list[Any]:
        return [Anything()] * count
