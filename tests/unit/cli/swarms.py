"""Local swarms that are not started, and machines with so much memory."""

from __future__ import annotations

from typing import Any

import pytest

from swarm.cli.local_swarm import LocalSwarm
from swarm.config import Settings
from swarm.planner import planner
from swarm.planner.device_memory import DeviceMemory


def swarm_of(*workers: str, max_rounds: int = 9, **settings: Any) -> LocalSwarm:
    """A coordinator, unless `clock` is `own`, and these workers; without names alice and bob."""
    shared = Settings(max_rounds=max_rounds, **settings)
    named = (Settings(node_id=name) for name in workers or ("alice", "bob"))
    return LocalSwarm(shared, tuple(named), processes=None)


def have_free(monkeypatch: pytest.MonkeyPatch, free_bytes: float) -> None:
    """As if this machine had so many bytes free."""
    device = DeviceMemory(device="cpu", free=int(free_bytes), total=10**12, host_free=int(free_bytes))
    monkeypatch.setattr(planner, "device_memory", lambda _: device)
