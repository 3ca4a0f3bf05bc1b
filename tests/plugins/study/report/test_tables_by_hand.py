"""Tables of a report, by hand: how soon runs rose, and what a unit of reward cost."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

import msgspec
import pandas as pd

from swarm.plugins.study.analysis.measures import agent_average, totals
from swarm.plugins.study.report.notes import what_was_run
from tests.plugins.study.analysis.frames_by_hand import make_metrics
from tests.plugins.study.report.report_factory import make_evidence, make_record, table_of


def test_a_median_round_knows_of_the_seeds_that_never_got_there() -> None:
    at_once, at_4, never = [[0.8]] * 8, [[0.0]] * 4 + [[0.8]] * 4, [[0.0]] * 8
    runs = {"all": [at_once, at_once, at_4], "most": [at_once, at_4, never], "few": [at_once, never, never]}
    frames = [make_metrics(run, name, seed) for name, own in runs.items() for seed, run in enumerate(own)]
    metrics = pd.concat(frames, ignore_index=True)
    record = make_record("small", tuple(runs), (0, 1, 2), ("alice",), 8)
    evidence = make_evidence(record, runs=totals(metrics), rounds=agent_average(metrics))
    lowest = table_of("rounds_to_threshold", evidence).groupby("configuration", sort=False).first()
    assert lowest["reached"].tolist() == [3, 2, 1]
    assert lowest["first"].tolist() == [0.0, 0.0, 0.0]
    medians = lowest[["round", "tokens_per_node", "trained_per_node", "seconds"]]
    assert medians.loc["all"].tolist() == [0.0, 100.0, 50.0, 4.0]
    assert medians.loc["most"].tolist() == [5.0, 600.0, 300.0, 24.0]
    assert medians.loc["few"].isna().all()


RUNS = pd.DataFrame(
    {
        "configuration": ["4/4", "4/4", "alone"],
        "seed": [1, 2, 1],
        "experiment": ["a", "b", "c"],
        "rounds": 3,
        "cumulative_reward": [9.0, 11.0, 0.0],
        "wall_seconds": [10.0, 20.0, 5.0],
        "tokens_generated": [100, 300, 50],
        "tokens_trained": [400, 600, 25],
        "bytes_published": [1000, 1000, 300],
        "bytes_fetched": [5000, 7000, 0],
    }
)


def test_bytes_written_and_read_are_held_against_the_reward_and_nothing_is_of_a_reward_of_zero() -> None:
    evidence = make_evidence(make_record("small", ("4/4", "alone"), (1, 2), ("a", "b"), 3), runs=RUNS)
    shared, alone = table_of("price", evidence).to_dict("records")
    assert (shared["reward"], shared["bytes_moved"], shared["bytes_per_reward"]) == (10.0, 7000.0, 700.0)
    assert (shared["generated_per_reward"], shared["trained_per_reward"]) == (20.0, 50.0)
    assert alone["bytes_moved"] == 300.0
    assert pd.isna(alone["bytes_per_reward"])


def test_of_swarms_of_unlike_sizes_the_page_says_how_their_sums_are_shown() -> None:
    record = make_record("small", ("4/4", "alone"), (1, 2), ("a", "b"), 3)
    first, second = record.configurations
    sized = msgspec.structs.replace(record, configurations=(first, msgspec.structs.replace(second, nodes=1)))
    assert "alone 1" in " ".join(what_was_run(make_evidence(sized, runs=RUNS)))
