"""A run begun under the settings of earlier versions computes what it did then: profile `tiny`, its model, no empty
updates. Its rewards were written down by the version before `tiny-2`."""

import json
from pathlib import Path

import pytest

from tests.integration.swarms import environment, rows, well

pytestmark = [pytest.mark.engine, pytest.mark.slow]

GOLDEN = Path(__file__).parents[1] / "fixtures" / "tiny_rewards.json"
OLD = {"SWARM_PROFILE": "tiny", "MODEL_NAME": "tiny-qwen2", "SWARM_EMPTY_UPDATE": "skip"}


def test_the_demonstration_of_earlier_versions_earns_the_same_rewards_to_the_last_digit(tmp_path: Path) -> None:
    golden = json.loads(GOLDEN.read_text())
    clean = {name: value for name, value in environment(tmp_path).items() if name in {"PATH", "HOME", "LANG"}}
    where = {"GDRIVE_PATH": str(tmp_path), "EXPERIMENT_NAME": "test"}
    well(clean | where | OLD, "up", "--nodes", str(len(golden)), "--rounds", "10", timeout=600)
    assert {node: [row["my_reward"] for row in rows(tmp_path, node)] for node in golden} == golden
