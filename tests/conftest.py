"""For all tests: property tests have no deadline per example; tests that share a set-up share a process."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

settings.register_profile("swarm", deadline=None)  # a busy machine is no failure
settings.load_profile("swarm")


def pytest_collection_finish(session: pytest.Session) -> None:
    """pytest-xdist marks a test's group in its name; a pytest that it does not fit lets it do nothing, silently."""
    grouped = [item.nodeid for item in session.items if item.get_closest_marker("xdist_group")]
    if "PYTEST_XDIST_WORKER" in os.environ and any("@" not in name for name in grouped):
        raise pytest.UsageError(f"pytest {pytest.__version__} does not keep groups of tests together: install <9.2")
