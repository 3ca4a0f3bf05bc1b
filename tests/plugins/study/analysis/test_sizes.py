"""Sums of swarms of unlike sizes are shown for as many nodes as the study has."""

from __future__ import annotations

from typing import Any

import msgspec
import pandas as pd
import pytest

from swarm.plugins.study.analysis.sizes import as_of_equal_sizes
from swarm.plugins.study.budget import said_of_sizes, unequal
from swarm.plugins.study.record import ConfigurationRecord, StudyRecord

FRAME = pd.DataFrame(
    {
        "configuration": ["4/4", "central"],
        "cumulative_reward": [60.0, 10.0],
        "cumulative_tagged": [80.0, 12.0],
        "final_reward": [0.5, 0.7],
        "tokens_generated": [800, 800],
        "tokens_per_node": [100.0, 800.0],
    }
)


def make_record(**central: Any) -> StudyRecord:
    splits = {"4/4": {"local_groups": 4, "external_groups": 4}, "central": {"local_groups": 32, "external_groups": 0}}
    configurations = [ConfigurationRecord(name=name, settings=settings) for name, settings in splits.items()]
    there = (configurations[0], msgspec.structs.replace(configurations[1], **central))
    return StudyRecord(
        study="s", title="", created_at=0.0, nodes=8, rounds=2, seeds=(1,), configurations=there, settings={}
    )


def test_one_node_beside_eight_counts_eightfold_and_shares_what_it_spent() -> None:
    found = as_of_equal_sizes(FRAME, make_record(nodes=1)).set_index("configuration")
    assert found.loc["central"].tolist() == pytest.approx([80.0, 96.0, 0.7, 800.0, 100.0])
    assert found.loc["4/4"].tolist() == FRAME.set_index("configuration").loc["4/4"].tolist()


def test_studies_of_one_size_stay_as_they_are_and_say_nothing() -> None:
    for record in (make_record(), make_record(nodes=8)):
        assert as_of_equal_sizes(FRAME, record) is FRAME
        assert said_of_sizes(record) == ""
    assert said_of_sizes(make_record(nodes=1)).startswith("Nodes of a swarm, where not 8: central 1.")


def test_budgets_of_swarms_of_unlike_sizes_are_those_of_all_their_nodes() -> None:
    said = unequal(make_record(nodes=1), "central", "4/4")
    assert said == (
        "the whole swarm of central trains on 32 groups a round, the whole swarm of 4/4 on 64: 0.5 times as many"
    )
