"""For tests of studies: light programs in the place of swarms."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FAKE = (sys.executable, "-I", "-S", str(Path(__file__).parent / "run" / "fake_swarm.py"))
"""Starts without packages, and so at once."""


@pytest.fixture
def light_swarms(monkeypatch: pytest.MonkeyPatch) -> None:
    """A study of this process starts such programs, and looks at them often."""
    from swarm.plugins.study.run import launch, runner  # here, so that tests may skip what lacks a library

    monkeypatch.setattr(launch, "SWARM", FAKE)
    monkeypatch.setattr(runner, "POLL_SECONDS", 0.01)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder outside of the place, with a file that nobody may change or show."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").write_bytes(b"precious\n")
    return tmp_path / "outside"
