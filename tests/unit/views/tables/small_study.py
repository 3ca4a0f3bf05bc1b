"""The committed study of tests/fixtures, to look at in place or to spoil in a copy."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.layout import Layout

SMALL = Path(__file__).parents[3] / "fixtures" / "study"
FULL = "small_2-2_s1"
"""The run with rollouts, rewards and events."""


def copy_of_small(tmp_path: Path) -> Path:
    """A shared folder with the study, to be changed."""
    return Path(shutil.copytree(SMALL, tmp_path / "runs"))


def full_run(tmp_path: Path) -> Layout:
    """The run with everything, in a folder of its own."""
    shutil.copytree(SMALL / "experiments" / FULL, tmp_path / "experiments" / FULL)
    return Layout(tmp_path, FULL)


def empty_run(tmp_path: Path) -> Layout:
    """An experiment whose folder was made a moment ago."""
    layout = Layout(tmp_path, "young")
    layout.root.mkdir(parents=True)
    return layout
