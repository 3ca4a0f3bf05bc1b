"""What is a node doing right now? Told from the folder alone, so as of its last sign of life."""

from __future__ import annotations

from typing import Any

import msgspec

from swarm.records.files import read_peer
from swarm.records.growing import GrowingLines
from swarm.records.listing import entries
from swarm.records.liveness import ACTIVE
from swarm.wire import keys
from tests.layout import Layout

STARTING, REDOING, SAVING = "starting", "redoing", "writing a checkpoint"
_LATEST = {
    "node.starting": STARTING,
    "rounds.redoing": REDOING,
    "round.redone": REDOING,
    "rounds.redone": STARTING,
    "rounds.lost": STARTING,
    "node.ready": "",
    "coordinator.ready": "",
}


class Phases:
    """Follows one node's log and registration."""

    def __init__(self, layout: Layout, node: str) -> None:
        self._layout = layout
        self._node = node
        self._events = GrowingLines(layout.run.store, keys.events(node))
        self._told = STARTING
        self.counts: dict[str, int] = {}
        """How often each event was logged."""

    def started(self) -> None:
        """A new process of this node has just been started."""
        self.read()
        self._told = STARTING

    def read(self) -> None:
        """Take note of what was logged since the last call."""
        for line in (line for part in self._events.look() for line in part.records):
            event: dict[str, Any] = msgspec.json.decode(line)
            name = event["event"]
            self.counts[name] = self.counts.get(name, 0) + 1
            self._told = _LATEST.get(name, self._told)

    def now(self) -> str:
        """One of the above, or the phase of the worker's machine, or `keeping time`."""
        self.read()
        drafts = entries(self._layout.run.store, f"{keys.DRAFTS}/{self._node}")
        if any(draft.name.startswith("checkpoint-") for draft in drafts):
            return SAVING
        if self._told:
            return self._told
        peer = read_peer(self._layout.run, self._node)
        if peer is None or peer.status != ACTIVE:
            return STARTING
        return peer.phase or "keeping time"
