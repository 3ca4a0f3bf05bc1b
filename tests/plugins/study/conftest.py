"""For tests of studies: light programs in the place of swarms."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

FAKE = (sys.executable, "-I", "-S", str(Path(__file__).parent / "run" / "fake_swarm.py"))
"""Starts without packages, and so at once."""


@pytest.fixture
def without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports of this process have no figures, which take seconds to draw."""
    from swarm.plugins.study.report import write
    from swarm.plugins.study.report.parts import ShownSection, ShownTable

    def undrawn(evidence: Any) -> list[ShownSection]:
        sections = contents(evidence)
        return [
            replace(one, parts=tuple(part for part in one.parts if isinstance(part, ShownTable))) for one in sections
        ]

    contents = write.contents
    monkeypatch.setattr(write, "contents", undrawn)


@pytest.fixture
def light_swarms(monkeypatch: pytest.MonkeyPatch) -> None:
    """A study of this process starts such programs, and looks at them often."""
    from swarm.plugins.study.run import launch, runner  # here, so that tests may skip what lacks a library

    monkeypatch.setattr(launch, "SWARM", FAKE)
    monkeypatch.setattr(runner, "POLL_SECONDS", 0.01)
