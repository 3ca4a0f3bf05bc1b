"""The number of open files: raised as far as is allowed, and refused where a node cannot run with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

if sys.platform == "win32":
    pytest.skip("it has no such limit", allow_module_level=True)


def with_limits(soft: int, hard: int, code: str) -> str:
    """What the code prints where so many files may be open."""
    before = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
    command = [sys.executable, "-c", f"{before}from swarm.planner import open_files\n{code}"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout.strip()


RAISE = "open_files.raise_limit(); print(open_files.limit(), open_files.problem() == '')"


@pytest.mark.parametrize(("soft", "hard", "then"), [(32, 2000, "2000 True"), (64, 64, "64 True"), (48, 48, "48 False")])
def test_the_limit_is_raised_as_far_as_is_allowed_and_what_cannot_work_is_a_problem(
    soft: int, hard: int, then: str
) -> None:
    assert with_limits(soft, hard, RAISE) == then


def test_a_node_is_refused_before_it_writes_anything(tmp_path: Path) -> None:
    node = f"['node', '--role', 'coordinator', '--path', {str(tmp_path)!r}]"
    assert with_limits(48, 48, f"from swarm.cli.main import run; print(run({node}))") == "2"
    assert not any(tmp_path.iterdir())
