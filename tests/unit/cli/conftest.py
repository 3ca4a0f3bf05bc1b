"""What tests of commands share."""

from __future__ import annotations

import pytest


@pytest.fixture
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """No place and no experiment but those that a command names."""
    for name in ("GDRIVE_PATH", "SWARM_PATH", "EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
