"""One experiment in a shared place: its name, its store, and what this process does about signatures."""

from __future__ import annotations

from dataclasses import dataclass

from swarm.store.base import Store
from swarm.wire.trust import TRUSTING, Trust


@dataclass(frozen=True)
class Run:
    """What everybody holds who works with an experiment."""

    experiment: str
    store: Store
    trust: Trust = TRUSTING
