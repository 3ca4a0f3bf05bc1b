"""The demonstration comes out as it did before, to the last digit: rewards, and what was trained on.

`uniform` as docs/running.md shows it; `whole-pool` and `tiny-2`, sampler and profile of earlier versions, as these
showed it.
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
OF_THE_MACHINE = {"memory-75", "memory-90", "disk-75", "disk-90"}
"""How full the machine is that the tests run on is not theirs."""


@pytest.mark.engine
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("sampler", "profile"), [("uniform", "tiny-3"), pytest.param("whole-pool", "tiny-2", marks=pytest.mark.slow)]
)
def test_the_demonstration_comes_out_as_it_did(tmp_path: Path, sampler: str, profile: str) -> None:
    up = [sys.executable, "-m", "swarm", "up", "--path", str(tmp_path), "--experiment", "demo", "--sampler", sampler]
    up += ["--profile", profile]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SWARM_")}
    done = subprocess.run([*up, "--rounds", str(ROUNDS)], env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(re.findall(r"docs/hints\.md#([\w-]+)", done.stdout)) <= OF_THE_MACHINE, "there is nothing to hint at"
    logs = tmp_path / "experiments" / "demo" / "logs"
    for node, expected in json.loads((GOLDEN / f"{sampler}.json").read_text()).items():
        rows = [json.loads(line) for line in (logs / node / "metrics.jsonl").read_text().splitlines()]
        assert [{"my_reward": row["my_reward"], "trained_on": row["trained_on"]} for row in rows] == expected, node
