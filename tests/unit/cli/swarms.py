"""Local swarms that are not started."""

from __future__ import annotations

from typing import Any

from swarm.cli.local_swarm import LocalSwarm
from swarm.config import Settings


def swarm_of(*workers: str, max_rounds: int = 9, **settings: Any) -> LocalSwarm:
    """A coordinator, unless `clock` is `own`, and these workers; without names alice and bob."""
    shared = Settings(max_rounds=max_rounds, **settings)
    named = (Settings(node_id=name) for name in workers or ("alice", "bob"))
    return LocalSwarm(shared, tuple(named), processes=None)
