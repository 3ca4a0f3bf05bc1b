"""Reads what `swarm top` shows: each look costs what is new since the one before."""

from __future__ import annotations

from typing import NamedTuple

from swarm.plugins.top.frame import Frame, frame_of, node_detail
from swarm.records.groups import WantedGroups, read_groups
from swarm.records.history import History, HistoryReader
from swarm.records.liveness import Machine
from swarm.records.stream import EventStream, WantedEvents
from swarm.store.run import Run
from swarm.views import groups as group_view
from swarm.views.events import render as render_events
from swarm.views.status import Status, StatusReader

GROUPS_SHOWN = 8
EVENTS_SHOWN = 200


class TopLook(NamedTuple):
    """A run at one moment."""

    status: Status
    history: History
    frame: Frame


class TopReader:
    """Reads one run. Its verbs block; one thread at a time."""

    def __init__(self, run: Run, *, liveness_timeout: float, here: Machine | None = None) -> None:
        self.run = run
        self._reader = HistoryReader(run)
        self._status = StatusReader(self._reader, liveness_timeout=liveness_timeout, here=here)

    def look(self, wall: float) -> TopLook:
        """Looks at the run at `wall`, Unix seconds. Raises StoreError where the place itself fails."""
        status, history = self._status.read(wall), self._reader.history
        return TopLook(status, history, frame_of(status, history))

    def node_text(self, look: TopLook, node: str, width: int) -> str:
        """Returns one node in full."""
        known = {one.node: one for one in look.status.nodes}
        return node_detail(known[node], look.history.get(node), width) if node in known else f"{node}: not there"

    def groups_text(self, node: str, width: int) -> str:
        """Renders the newest rollout groups of a node, or with "" everybody's."""
        wanted = WantedGroups(nodes=frozenset({node} if node else ()))
        return group_view.render(read_groups(self.run, wanted, GROUPS_SHOWN), width=width)

    def events_text(self, node: str) -> str:
        """Returns the last events, of one node or with "" of all."""
        events = EventStream(self.run, WantedEvents(nodes=frozenset({node} if node else ()))).read_last(EVENTS_SHOWN)
        return "\n".join(render_events(events)) or "no event yet"
