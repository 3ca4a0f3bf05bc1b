"""Which configurations train on how many groups."""

from __future__ import annotations

import msgspec

from swarm.plugins.study.budget import split_of, unequal, unequal_budgets
from swarm.plugins.study.record import StudyRecord
from swarm.plugins.study.run.matrix_file import built_in
from tests.plugins.study.study_files import resolved


def record_of(name: str) -> StudyRecord:
    return resolved(built_in(name))


def test_the_thesis_compares_fixed_and_adaptive_splits_of_four_groups_and_one_of_eight() -> None:
    record = record_of("thesis")
    assert record.nodes == 4, "and the coordinator is the fifth"
    splits = {one.name: split_of(record, one.name) for one in record.configurations}
    fixed = {"4/0": (4, 0), "3/1": (3, 1), "2/2": (2, 2), "1/3": (1, 3), "4/4": (4, 4)}
    rules = dict.fromkeys(("adaptive-0.05", "adaptive-0.1", "adaptive-0.2"), (2, 2))
    assert splits == fixed | rules
    assert unequal_budgets(record) == ["4/4 trains on 8 groups a round, 4/0 on 4: 2 times as many"]
    of_sums = [one for one in record.declared if one.measure == "cumulative_reward"]
    assert [(one.configuration, one.baseline) for one in of_sums] == [
        *((name, "4/0") for name in ("3/1", "2/2", "1/3", "4/4")),
        *((name, "2/2") for name in rules),
    ]
    others = [(one.configuration, one.baseline, one.measure, one.test) for one in record.declared[len(of_sums) :]]
    assert others == [
        ("2/2", "4/0", "weaker_over_stronger", "paired"),
        *((name, "", "quality_J", "zero") for name in rules),
    ]
    assert [one.hypothesis.split(":")[0] for one in record.declared] == ["RQ1"] * 4 + ["RQ3"] * 3 + ["RQ2"] + [
        "RQ4"
    ] * 3
    assert [one.configuration for one in record.declared if "twice as many groups" in one.hypothesis] == ["4/4"]


def test_splits_that_nobody_names_are_those_of_the_study() -> None:
    record = record_of("sapo")
    silent = msgspec.structs.replace(record.configurations[0], settings={})
    shared = msgspec.structs.replace(record, configurations=(silent,), settings={"local_groups": 3}, defaults={})
    assert split_of(shared, silent.name) == (3, 0)


def test_equal_budgets_and_missing_baselines_say_nothing() -> None:
    record = record_of("sapo")
    assert unequal_budgets(record) == []
    assert unequal(record, "4/4", "") == unequal(record, "4/4", "gone") == ""
