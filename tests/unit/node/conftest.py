"""What all tests of nodes share: the event loop that nodes run on, and an empty experiment."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.node.sharing.reading import PeersFiles
from swarm.node.worker.worker_machine import GatherPace
from swarm.store.folder.store import FolderStore
from tests.layout import Layout


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path, "exp")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which peers' files are read, one by one."""
    found, usual = list[str](), PeersFiles.fetch
    monkeypatch.setattr(PeersFiles, "fetch", lambda *given: (found.append(given[2]), usual(*given))[1])
    return found


@pytest.fixture
def gets(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of a folder that are read, one by one."""
    found, usual = list[str](), FolderStore.get
    monkeypatch.setattr(FolderStore, "get", lambda store, key, limit: (found.append(key), usual(store, key, limit))[1])
    return found


@pytest.fixture
def patient_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a peer of the same process may be late; what a deadline does is tested without time."""
    monkeypatch.setattr(GatherPace, "SLACK", 20.0)
