"""The number of open files is raised as far as is allowed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.patience import PATIENCE

if sys.platform == "win32":
    pytest.skip("it has no such limit", allow_module_level=True)


@pytest.mark.parametrize(("soft", "hard", "then"), [(32, 2000, "2000"), (48, 48, "48")])
def test_the_limit_is_raised_as_far_as_is_allowed(soft: int, hard: int, then: str) -> None:
    code = f"""
import resource
from swarm.planner.open_files import limit, raise_limit
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
raise_limit()
print(limit())
"""
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout.strip() == then
