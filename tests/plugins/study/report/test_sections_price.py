"""What a unit of reward costs, by hand."""

from __future__ import annotations

import msgspec
import pytest

pytest.importorskip("matplotlib")

import pandas as pd

from swarm.plugins.study.report.notes import of_sizes
from swarm.plugins.study.report.parts import Table
from swarm.plugins.study.report.sections import SECTIONS
from tests.plugins.study.report.report_factory import make_evidence, make_record

(PRICE,) = (part for one in SECTIONS for part in one.parts if part.name == "price" and isinstance(part, Table))
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
    shared, alone = PRICE.frame(evidence).to_dict("records")
    assert (shared["reward"], shared["bytes_moved"], shared["bytes_per_reward"]) == (10.0, 7000.0, 700.0)
    assert (shared["generated_per_reward"], shared["trained_per_reward"]) == (20.0, 50.0)
    assert alone["bytes_moved"] == 300.0
    assert pd.isna(alone["bytes_per_reward"])


def test_of_swarms_of_unlike_sizes_the_section_says_how_their_sums_are_shown() -> None:
    record = make_record("small", ("4/4", "alone"), (1, 2), ("a", "b"), 3)
    first, second = record.configurations
    sized = msgspec.structs.replace(record, configurations=(first, msgspec.structs.replace(second, nodes=1)))
    assert not any(of_sizes(make_evidence(record, runs=RUNS)))
    assert "alone 1" in next(iter(of_sizes(make_evidence(sized, runs=RUNS))))
