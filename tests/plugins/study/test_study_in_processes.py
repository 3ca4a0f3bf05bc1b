"""`swarm study run` with real swarms: two configurations, one seed, two nodes."""

import json
import sys
from pathlib import Path

import pytest

from tests.integration.swarms import environment, json_lines, run_swarm
from tests.layout import Layout
from tests.plugins.study.study_kill import Moment, Size, differences, events, rows_of, run_killed, run_whole, set_aside

MATRIX = """
name = "pair"
nodes = 2
rounds = 2
seeds = [7]
baseline = "4/0"
[settings]
generations = 4
max_new_tokens = 8
[[configurations]]
name = "4/0"
settings = { local_groups = 4, external_groups = 0 }
[[configurations]]
name = "2/2"
settings = { local_groups = 2, external_groups = 2 }
"""


def written(path: Path) -> dict[str, bytes]:
    """Every metrics file of the study's runs."""
    return {str(file): file.read_bytes() for file in path.glob("experiments/*/logs/*/metrics.jsonl")}


@pytest.mark.engine
def test_a_study_runs_its_configurations_as_they_are_named_and_is_then_done(tmp_path):
    (tmp_path / "pair.toml").write_text(MATRIX)
    earns_at_once = {"MODEL_NAME": "tiny-qwen2", "SWARM_PROFILE": "tiny"}
    small = environment(tmp_path, **earns_at_once)
    env = {name: value for name, value in small.items() if not name.startswith(("NUM_", "MAX_"))}
    command = ("study", "run", str(tmp_path / "pair.toml"), "--jobs", "2")
    first = run_swarm(env, *command)
    assert first.returncode == 0, first.stdout + first.stderr
    assert "of 4/0" in first.stdout

    for name, split in (("pair-4-0-s7", (4, 0)), ("pair-2-2-s7", (2, 2))):
        layout = Layout(tmp_path, name)
        identity = json.loads(layout.experiment_file.read_bytes())["identity"]
        assert (identity["local_groups"], identity["external_groups"], identity["seed"]) == (*split, 7)
        assert json.loads((layout.root / "study_run.json").read_bytes())["versions"]["python"] == sys.version.split()[0]
        for node in ("worker-0", "worker-1"):
            rows = json_lines(layout.metrics_file(node))
            assert [row["round"] for row in rows] == [0, 1]
            assert {(row["local_groups"], row["external_wanted"]) for row in rows} == {split}

    before = written(tmp_path)
    again = run_swarm(env, *command)
    assert again.returncode == 0, again.stdout + again.stderr
    assert written(tmp_path) == before
    assert "pair" in run_swarm(env, "study", "list").stdout


@pytest.mark.slow
def test_a_study_that_was_killed_as_a_whole_has_the_rewards_of_one_that_was_not(tmp_path):
    size = Size(nodes=2, rounds=6, interval=2)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run_whole(whole, size)
    (killed,) = run_killed(broken, size, [Moment(size.experiments[1], 3, 0.1)])
    assert killed > 5, "that was not everything"
    undisturbed = rows_of(whole, size)
    assert len(undisturbed) == 2 * size.nodes * size.rounds
    assert differences(undisturbed, rows_of(broken, size)) == []
    assert sum(event["count"] for event in events(broken, size, "rounds.redone")) > 0, "nothing had to be redone"
    assert set_aside(broken) == []


@pytest.mark.engine
def test_a_rehearsal_of_real_swarms_predicts_hours_and_the_start_and_leaves_the_study_as_it_was(tmp_path):
    (tmp_path / "pair.toml").write_text(MATRIX.replace("rounds = 2", "rounds = 3"))
    clean = {
        name: value for name, value in environment(tmp_path).items() if not name.startswith(("NUM_", "MAX_", "MODEL"))
    }
    command = ("study", "run", str(tmp_path / "pair.toml"), "--jobs", "2")
    rehearsed = run_swarm(clean, *command, "--rehearse")
    assert rehearsed.returncode == 0, rehearsed.stdout + rehearsed.stderr
    assert "pair: 2 runs x 3 rounds, 2 at a time: about " in rehearsed.stdout
    assert "expected at the start: reward per completion 0." in rehearsed.stdout
    assert not (tmp_path / "experiments").exists()
    found = json.loads((tmp_path / "studies" / "pair" / "rehearsal.json").read_bytes())
    assert found["start"]["groups"] == 2 * 4, "round 0 of 4/0"
    assert found["all_rounds"]["groups"] == 3 * 2 * (4 + 2)
    assert all(0 < pace["least"] <= pace["most"] and pace["once"] > 0 for pace in found["paces"].values())
    assert found["memory_peak"] > 10**8
    assert found["checkpoint_bytes"] > 2 * 3 * 861_312 * 4, "weights and two moments of each of two nodes"

    study = run_swarm(clean, *command)
    assert study.returncode == 0, study.stdout + study.stderr
    again = run_swarm(clean, *command, "--rehearse")
    assert "about 0.0s to 0.0s" in again.stdout, "nothing is left"
