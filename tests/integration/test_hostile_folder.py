"""Commands typed in a folder full of strangers' modules execute none of them, and neither do their children."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from swarm.children import child_environment
from tests.integration.hostile_folder import make_hostile, marks
from tests.integration.swarms import environment
from tests.patience import PATIENCE

COMMANDS = [
    pytest.param(("up", "--nodes", "1", "--rounds", "2"), id="up", marks=pytest.mark.engine),
    pytest.param(
        ("up", "--nodes", "2", "--rounds", "2", "--in-process"), id="up, one process", marks=pytest.mark.engine
    ),
    pytest.param(("plan", "--nodes", "2"), id="plan"),
]


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_command_in_a_hostile_folder_executes_nothing_of_it(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    folder = make_hostile(tmp_path)
    env = environment(folder) | {"GDRIVE_PATH": "."}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "swarm", *arguments],
        cwd=folder,
        env={k: v for k, v in env.items() if k not in ("MAX_ROUNDS", "PYTHONSAFEPATH")},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert marks(folder) == []


def test_a_plain_child_would_execute_it(tmp_path: Path) -> None:
    """The mark is one that can be seen."""
    folder = make_hostile(tmp_path)
    subprocess.run([sys.executable, "-c", "import anyio"], cwd=folder, capture_output=True, check=False)
    assert marks(folder) == ["executed-anyio"]


def test_relative_entries_of_the_python_path_do_not_reach_a_child() -> None:
    given = os.pathsep.join(["", ".", "here", "/opt/mine"])
    kept = child_environment({"PYTHONPATH": given, "HOME": "/root"})
    assert not {"", ".", "here"} & set(kept["PYTHONPATH"].split(os.pathsep))
    assert "/opt/mine" in kept["PYTHONPATH"].split(os.pathsep)
    assert (kept["PYTHONSAFEPATH"], kept["HOME"]) == ("1", "/root")
