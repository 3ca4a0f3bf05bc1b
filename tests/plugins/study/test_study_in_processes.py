"""`swarm study run` with real swarms: two configurations, one seed, two nodes."""

import json
import sys

import pytest

from tests.integration.swarms import environment, json_lines, well
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


@pytest.mark.engine
def test_a_study_is_rehearsed_and_runs_its_configurations_as_they_are_named(tmp_path):
    head, *_, sharing = MATRIX.split("[[configurations]]")
    (tmp_path / "sharing.toml").write_text(f"{head.replace('baseline', '# baseline')}[[configurations]]{sharing}")
    (tmp_path / "pair.toml").write_text(MATRIX)
    earns_at_once = {"MODEL_NAME": "tiny-qwen2", "SWARM_PROFILE": "tiny"}
    small = environment(tmp_path, **earns_at_once)
    env = {name: value for name, value in small.items() if not name.startswith(("NUM_", "MAX_"))}

    rehearsed = well(env, "study", "run", str(tmp_path / "sharing.toml"), "--rehearse")
    assert "pair: 1 runs x 2 rounds, 1 at a time: about " in rehearsed.stdout
    assert " of 8 groups with a signal" in rehearsed.stdout
    assert not (tmp_path / "experiments").exists()

    assert "of 4/0" in well(env, "study", "run", str(tmp_path / "pair.toml"), "--jobs", "2").stdout
    for name, split in (("pair-4-0-s7", (4, 0)), ("pair-2-2-s7", (2, 2))):
        layout = Layout(tmp_path, name)
        identity = json.loads(layout.experiment_file.read_bytes())["identity"]
        assert (identity["local_groups"], identity["external_groups"], identity["seed"]) == (*split, 7)
        assert json.loads((layout.root / "study_run.json").read_bytes())["versions"]["python"] == sys.version.split()[0]
        for node in ("worker-0", "worker-1"):
            rows = json_lines(layout.metrics_file(node))
            assert [row["round"] for row in rows] == [0, 1]
            assert {(row["local_groups"], row["external_wanted"]) for row in rows} == {split}


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
