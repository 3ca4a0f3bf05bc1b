"""For all tests: property tests have no deadline per example; tests that share a set-up share a process.

A run of all tests tries 30 examples of a property; `--hypothesis-profile campaign` tries 1,000.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("swarm", deadline=None, max_examples=30)  # a busy machine is no failure
settings.register_profile("campaign", deadline=None, max_examples=1000)
settings.load_profile("swarm")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out files of which `-m` wants nothing: libraries that only engine tests load take seconds to import."""
    if collection_path.suffix != ".py" or not (wanted := config.option.markexpr):
        return None
    text = collection_path.read_text("utf-8")
    for mark in ("engine", "slow"):
        if f"not {mark}" in wanted:
            left_out = re.search(rf"^pytestmark = \[?\s*pytest\.mark\.{mark}\b", text, re.M) is not None
        else:
            left_out = mark in wanted and f"mark.{mark}" not in text
        if left_out:
            return True
    return None


def pytest_collection_finish(session: pytest.Session) -> None:
    """pytest-xdist marks a test's group in its name; a pytest that it does not fit lets it do nothing, silently."""
    grouped = [item.nodeid for item in session.items if item.get_closest_marker("xdist_group")]
    if "PYTEST_XDIST_WORKER" in os.environ and any("@" not in name for name in grouped):
        raise pytest.UsageError(f"pytest {pytest.__version__} does not keep groups of tests together: install <9.2")


@pytest.fixture
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """No place and no experiment but those that a command names."""
    for name in ("GDRIVE_PATH", "SWARM_PATH", "EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
