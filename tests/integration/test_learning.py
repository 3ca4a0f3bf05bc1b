"""What the README promises: a swarm of embedded models learns, whatever the seed. Minutes, so behind a marker."""

import json
from pathlib import Path

import pytest

from tests.integration.swarms import environment, run_swarm, well

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("models", ["tiny-2-qwen2", "tiny-2-qwen2,tiny-2-gpt2"])
@pytest.mark.parametrize("seed", [42, 1, 2])
def test_a_swarm_multiplies_its_reward_by_five_in_forty_rounds(tmp_path: Path, models: str, seed: int) -> None:
    env = {name: value for name, value in environment(tmp_path).items() if name in {"PATH", "HOME", "LANG"}}
    where = ["--path", str(tmp_path), "--experiment", "test"]
    well(env, "up", *where, "--model", models, "--seed", str(seed), timeout=800)
    summary = json.loads(run_swarm(env, "summary", *where, "--json").stdout)
    reward = summary["reward"]
    assert reward["last"] >= 0.1, "in tiny-2, which pays for right answers alone"
    assert reward["last"] >= 5 * reward["first"]
    well(env, "validate", *where)
    external = summary["external_by_model"]
    assert all(external[model] > 0 for model in models.split(","))
