"""Commands typed in a folder full of strangers' modules execute none of them, and neither do their children."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from swarm.children import child_environment
from tests.integration.hostile_folder import make_hostile, marks
from tests.integration.swarms import environment
from tests.patience import PATIENCE

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]


def test_a_command_in_a_hostile_folder_executes_nothing_of_it(tmp_path: Path) -> None:
    """What `swarm up` does in one is in tests/engines/test_distribution.py."""
    folder = make_hostile(tmp_path)
    env = environment(folder) | {"GDRIVE_PATH": "."}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "swarm", "plan", "--nodes", "2"],
        cwd=folder,
        env={k: v for k, v in env.items() if k not in ("MAX_ROUNDS", "PYTHONSAFEPATH")},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert marks(folder) == []


@pytest.mark.parametrize(
    ("packages", "arguments"),
    [
        (("swarm",), ("services.health",)),
        *((("swarm",), (f"services.{one}", "--help")) for one in ("node", "workers", "judge")),
        ((), ("swarm", "--help")),
    ],
)
def test_without_p_nothing_but_the_very_package_that_is_named_could_come_from_the_working_folder(
    tmp_path: Path, packages: tuple[str, ...], arguments: tuple[str, ...]
) -> None:
    folder = make_hostile(tmp_path, packages)
    done = run_in(folder, "-m", *arguments)
    assert (done.returncode, "expected the node's id" in done.stderr) in [(0, False), (1, True)], done.stderr
    assert marks(folder) == []


def test_services_run_in_a_clone_that_nobody_has_installed(tmp_path: Path) -> None:
    for name in ("services", "swarm"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "assets"))
    (tmp_path / "swarm" / "cli" / "main.py").write_text("def run(words):\n    print(__file__)\n")
    done = run_in(tmp_path, "-m", "services.worker")
    assert done.stdout.strip() == str(tmp_path / "swarm" / "cli" / "main.py"), done.stderr


def run_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python in a folder, with its import path as a person's is."""
    env = {k: v for k, v in environment(folder).items() if k not in ("NODE_ID", "PYTHONSAFEPATH")}
    env |= {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)


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
