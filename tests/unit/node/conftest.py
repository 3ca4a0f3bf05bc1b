"""What all tests of nodes share: the event loop that nodes run on, and an empty experiment."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.node.worker.worker_machine import GatherPace
from tests.layout import Layout


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path, "exp")


@pytest.fixture
def patient_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a peer of the same process may be late; what a deadline does is tested without time."""
    monkeypatch.setattr(GatherPace, "SLACK", 20.0)
