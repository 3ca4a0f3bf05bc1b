"""Machines with so much memory."""

from __future__ import annotations

import pytest

from swarm.planner import planner
from swarm.planner.device_memory import DeviceMemory


def have_free(monkeypatch: pytest.MonkeyPatch, free_bytes: float) -> None:
    """As if this machine had so many bytes free."""
    device = DeviceMemory(device="cpu", free=int(free_bytes), total=10**12, host_free=int(free_bytes))
    monkeypatch.setattr(planner, "device_memory", lambda _: device)
