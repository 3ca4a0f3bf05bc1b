"""A swarm trains without what a Mac lacks: names of the standard library, /proc, Landlock."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.engine
@pytest.mark.timeout(900)
def test_a_swarm_trains_without_the_names_that_a_mac_lacks(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("from tests.windows import pretend_mac\n\npretend_mac()\n")
    env = {name: value for name, value in os.environ.items() if not name.startswith("SWARM_")}
    env |= {"PYTHONPATH": os.pathsep.join(map(str, (tmp_path, ROOT))), "HOME": str(tmp_path)}
    up = [sys.executable, "-P", "-m", "swarm", "up", "--nodes", "2", "--rounds", "2", "--path", str(tmp_path / "place")]
    done = subprocess.run(up, env=env, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "2 rounds by 2 nodes" in done.stdout
