"""Of all tests with a stub: between two tries nobody waits long."""

from __future__ import annotations

import pytest

from swarm.served import generator


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "FIRST_PAUSE", 0.001)
