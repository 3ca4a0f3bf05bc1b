"""The demonstration comes out as it did before, to the last digit: rewards, and what was trained on.

`default` as docs/running.md shows it; `tiny-3` and `tiny-2`, what earlier versions showed: all tasks of these profiles,
the second one by another sampler.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "demonstration"
ROUNDS = 12
EARLIER = {"tiny-3": ("--profile", "tiny-3"), "tiny-2": ("--profile", "tiny-2", "--sampler", "whole-pool")}
OF_THE_MACHINE = {"memory-75", "memory-90", "disk-75", "disk-90"}
"""How full the machine is that the tests run on is not theirs."""


@pytest.mark.engine
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["default", *(pytest.param(name, marks=pytest.mark.slow) for name in EARLIER)])
def test_the_demonstration_comes_out_as_it_did(tmp_path: Path, name: str) -> None:
    up = [sys.executable, "-m", "swarm", "up", "--path", str(tmp_path), "--experiment", "demo", *EARLIER.get(name, ())]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SWARM_")}
    done = subprocess.run([*up, "--rounds", str(ROUNDS)], env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(re.findall(r"docs/hints\.md#([\w-]+)", done.stdout)) <= OF_THE_MACHINE, "there is nothing to hint at"
    logs = tmp_path / "experiments" / "demo" / "logs"
    for node, expected in json.loads((GOLDEN / f"{name}.json").read_text()).items():
        rows = [json.loads(line) for line in (logs / node / "metrics.jsonl").read_text().splitlines()]
        assert [{"my_reward": row["my_reward"], "trained_on": row["trained_on"]} for row in rows] == expected, node
