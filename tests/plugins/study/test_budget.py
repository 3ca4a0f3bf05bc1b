"""Which configurations train on how many groups."""

from __future__ import annotations

import msgspec

from swarm.plugins.study.budget import split_of, unequal, unequal_budgets
from swarm.plugins.study.record import StudyRecord
from swarm.plugins.study.run.matrix_file import built_in
from swarm.plugins.study.split_moves import Moves, moves_of, said, together
from tests.plugins.study.study_files import resolved
from tests.unit.records.test_hints import row


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


# ── whether an adaptive rule moved J ────────────────────────────────────────────────────────────────────────────────
def moves(J: list[float]) -> Moves:
    found = moves_of([row(n, adaptive_J_continuous=value) for n, value in enumerate(J)])
    assert found
    return found


def test_of_several_nodes_one_that_left_is_enough_and_rows_without_a_rule_have_no_moves() -> None:
    assert together([moves([4.0, 4.0, 4.0]), moves([4.0, 5.0])]) == Moves(3, 1.0)
    assert moves_of([row(0), row(1)]) is together([]) is None


def test_a_j_that_went_half_a_group_away_and_came_back_has_left() -> None:
    assert said("fast", moves([4.0, 4.5, 4.0])) == ""
    text = said("slow", moves([4.0, 4.49, 4.0]))
    assert text.startswith("slow did not adapt: J was never more than 0.490 away from its first value in 3 rounds")
    assert "ADAPTIVE_IJ_ALPHA or SWARM_ADAPTIVE_RULE=gradient-scaled" in text
