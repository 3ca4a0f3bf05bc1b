"""`swarm up --against`: which two swarms are run, and what is said of them."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from swarm.config import Settings
from swarm.errors import ConfigError
from swarm.plugins.study.cli.against import matrix_of, sentence
from swarm.views.studies import AgainstRequest
from tests.integration.swarms import environment, well
from tests.layout import Layout

ROW: dict[str, Any] = {"configuration": "sharing", "baseline": "alone", "mean": 12.0, "baseline_mean": 10.0}
NONE = math.nan


def asked(other: str, seeds: int = 1, **settings: Any) -> AgainstRequest:
    given = Settings(experiment="demo", seed=7, local_groups=4, external_groups=4, **settings)
    return AgainstRequest(given, 4, other, seeds, {}, None, {}, "swarm up", dry_run=False)


def test_who_is_alone_trains_on_as_many_groups_all_its_own() -> None:
    matrix = matrix_of(asked("alone", seeds=3))
    ours, theirs = matrix.configurations
    assert (matrix.name, matrix.nodes, matrix.seeds) == ("demo-vs-alone", 4, (7, 8, 9))
    assert (ours.name, ours.settings, ours.baseline) == ("sharing", {}, "alone")
    assert theirs.settings == {"local_groups": 8, "external_groups": 0}


@pytest.mark.parametrize(
    "other", ["external=2,local=6", "external_groups=2, --local=6", "NUM_TRANSPLANT_TREES=2,local=6"]
)
def test_settings_are_named_as_flags_settings_or_variables(other: str) -> None:
    _, theirs = matrix_of(asked(other)).configurations
    assert theirs.settings == {"external_groups": 2, "local_groups": 6}


def test_the_value_of_a_setting_may_hold_commas() -> None:
    _, theirs = matrix_of(asked("model=tiny-2-qwen2,tiny-2-gpt2")).configurations
    assert theirs.settings == {"model": ("tiny-2-qwen2", "tiny-2-gpt2")}


@pytest.mark.parametrize(
    ("other", "said"),
    [("alnoe", "did you mean 'alone'"), ("extrenal=0", "did you mean 'external'"), ("external=4", "is that anyway")],
)
def test_what_is_no_other_swarm_is_refused(other: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        matrix_of(asked(other))


def test_one_run_of_each_may_be_chance_and_that_is_said() -> None:
    said = sentence({**ROW, "n": 1, "improvement": 20.0, "improvement_low": NONE, "improvement_high": NONE}, 40)
    assert said == (
        "sharing earned 12.00 in 40 rounds, alone 10.00: +20.0 %. This is one run of each, so it may be chance: "
        "--seeds 3 or more give an interval."
    )


@pytest.mark.parametrize(("low", "rest"), [(5.0, "."), (-5.0, ". The interval holds 0: this may be chance.")])
def test_several_runs_have_an_interval(low: float, rest: str) -> None:
    said = sentence({**ROW, "n": 5, "improvement": 20.0, "improvement_low": low, "improvement_high": 35.0}, 40)
    assert said.endswith(f": +20.0 % (95 % interval {low:+.1f} to +35.0, 5 runs of each, paired by seed){rest}")


@pytest.mark.engine
def test_two_swarms_become_two_curves_and_a_sentence_and_more_seeds_go_on_with_them(tmp_path: Path) -> None:
    env = environment(tmp_path, EXPERIMENT_NAME="demo", MAX_ROUNDS=2, SEED=7)
    for name in ("SWARM_THREADS", "COORDINATOR_ROUND_INTERVAL", "SWARM_LIVENESS_TIMEOUT"):
        env.pop(name)
    command = ("up", "--nodes", "2", "--against", "alone")
    first = well(env, *command)
    assert re.search(r"^sharing earned [\d.]+ in 2 rounds, alone [\d.]+", first.stdout, re.MULTILINE)
    assert "This is one run of each" in first.stdout
    figure = tmp_path / "studies" / "demo-vs-alone" / "reward.png"
    assert figure.read_bytes().startswith(b"\x89PNG")
    names = {f"demo-vs-alone-{one}-s7" for one in ("sharing", "alone")}
    assert {folder.name for folder in (tmp_path / "experiments").iterdir()} == names
    files = [Layout(tmp_path, name).metrics_file("worker-0") for name in names]
    before = [file.read_bytes() for file in files]
    assert "This is 2 runs of each" in well(env, *command, "--seeds", "2").stdout
    assert [file.read_bytes() for file in files] == before
    record = json.loads((tmp_path / "studies" / "demo-vs-alone" / "study.json").read_bytes())
    assert record["seeds"] == [7, 8]
