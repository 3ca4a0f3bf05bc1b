"""The experiment that most views are tried on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.layout import Layout
from tests.unit.views.factories import make_experiment


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A finished run of two workers."""
    return make_experiment(tmp_path)
