"""The table of a study, against scipy called directly and sums worked out by hand.

Ordinary tables of every kind are those of docs/study, which test_committed_tables.py makes again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest
from scipy import stats

from swarm.errors import ConfigError, ExperimentError
from swarm.plugins.study.analysis.compare import compare_experiments, compare_runs
from swarm.plugins.study.analysis.comparisons import (
    comparison_table,
    declared_table,
    effect_by_start,
    factors_table,
)
from swarm.plugins.study.analysis.significance import holm
from swarm.plugins.study.record import ConfigurationRecord, DeclaredComparison, RunRecord, StudyRecord
from tests.layout import Layout
from tests.plugins.study.analysis.frames_by_hand import make_metrics, make_record, make_totals
from tests.plugins.study.study_files import record_file
from tests.unit.views.factories import append, make_row, write

ALONE, SHARING, WORSE = [10.0, 12.0, 14.0], [15.0, 18.0, 21.0], [9.0, 13.0, 12.0]


def compared(totals: pd.DataFrame, record: StudyRecord) -> list[Any]:
    return [*comparison_table(totals, record).itertuples()]


def test_a_configuration_is_compared_with_its_baseline() -> None:
    _, row = compared(make_totals({"8/0": ALONE, "4/4": SHARING}), make_record("8/0", "4/4"))
    direct = stats.ttest_ind(SHARING, ALONE, equal_var=False)
    assert (row.difference, row.improvement) == (6, pytest.approx(50))
    assert (row.t, row.df, row.p) == pytest.approx((direct.statistic, direct.df, direct.pvalue))
    assert (row.difference_low, row.difference_high) == pytest.approx(tuple(direct.confidence_interval(0.95)))
    # pooled sd sqrt((4 + 9) / 2), J(4) = sqrt(2 / pi)
    assert row.hedges_g == pytest.approx(6 / math.sqrt(6.5) * math.sqrt(2 / math.pi))


def test_all_comparisons_of_a_page_are_one_family_whatever_their_baseline() -> None:
    record = make_record(
        ConfigurationRecord(name="small 8/0", settings={}, group="small"),
        ConfigurationRecord(name="small 4/4", settings={}, group="small", baseline="small 8/0"),
        ConfigurationRecord(name="small 2/6", settings={}, group="small", baseline="small 8/0"),
        ConfigurationRecord(name="large 8/0", settings={}, group="large"),
        ConfigurationRecord(name="large 4/4", settings={}, group="large", baseline="large 8/0"),
    )
    values = dict(zip((known.name for known in record.configurations), (ALONE, SHARING, WORSE) * 2, strict=False))
    rows = {row.configuration: row for row in compared(make_totals(values), record)}
    tested = [row for row in rows.values() if not row.untested]
    assert [row.configuration for row in tested] == ["small 4/4", "small 2/6", "large 4/4"]
    assert [row.p_holm for row in tested] == pytest.approx(holm([row.p for row in tested]))
    assert rows["large 4/4"].p_holm == pytest.approx(3 * rows["large 4/4"].p)


def test_runs_without_any_closed_answer_have_no_content() -> None:
    totals = make_totals({"8/0": [0.0] * 3, "4/4": [3.0, 3.0, 4.0]})
    totals["cumulative_tagged"] = totals["cumulative_reward"]
    totals["reward_given_tagged"] = [float("nan")] * 3 + [1.0] * 3
    (row,) = factors_table(totals, make_record("8/0", "4/4")).itertuples()
    assert pd.isna(row.reward)
    assert pd.isna(row.content)


def test_what_has_not_run_is_absent_and_compared_with_nothing() -> None:
    (row,) = compared(make_totals({"4/4": SHARING}), make_record("8/0", "4/4", "2/6"))
    assert (row.configuration, row.baseline, row.untested) == ("4/4", "8/0", "n < 3")
    assert math.isnan(row.difference)
    assert compared(make_totals({"8/0": ALONE}), make_record("8/0", rounds=11)) == []


def test_a_configuration_without_a_value_is_absent() -> None:
    totals = make_totals({"8/0": ALONE, "adaptive": SHARING}).assign(cumulative_reward=[float("nan")] * 3 + [4.0, 5, 6])
    (row,) = compared(totals, make_record("8/0", "adaptive"))
    assert (row.configuration, row.mean) == ("adaptive", 5)


# ── what was declared before the runs ───────────────────────────────────────────────────────────────────────────────
def declared(configuration: str = "4/4", **fields: str) -> DeclaredComparison:
    return DeclaredComparison(**{"configuration": configuration, "baseline": "8/0"} | fields)


def results(totals: pd.DataFrame, *comparisons: DeclaredComparison) -> list[Any]:
    """None where a number is missing."""
    table = declared_table(totals, make_record("8/0", "4/4", declared=comparisons)).astype(object)
    return [*table.where(table.notna(), None).itertuples()]


def test_pairs_are_runs_of_one_seed() -> None:
    totals = make_totals({"8/0": [10, 20, 30, 40], "4/4": [21, 32, 44]})
    totals.loc[totals["configuration"] == "4/4", "seed"] = [2, 3, 4]
    (row,) = results(totals.iloc[::-1], declared(test="paired"))
    assert (row.n, row.n_baseline, row.baseline_mean) == (3, 3, 30)
    assert row.p == pytest.approx(stats.ttest_rel([21, 32, 44], [20, 30, 40]).pvalue)


def test_what_cannot_be_tested_says_why_and_is_no_member_of_the_family() -> None:
    values = {"8/0": ALONE, "4/4": SHARING, "2/6": WORSE[:2], "6/2": [12.0]}
    full, two, none = results(make_totals(values), declared(), declared("2/6"), declared("0/8"))
    assert full.p_holm == full.p
    assert (two.n, two.difference, two.p, two.p_holm, two.untested) == (2, -1, None, None, "n < 3")
    assert (none.n, none.mean, none.difference, none.untested) == (0, None, None, "n < 3")
    (same,) = results(make_totals({"8/0": [1.0] * 3, "4/4": [1.0] * 3}), declared())
    assert (same.p, same.untested) == (None, "no spread")


def test_a_mean_against_zero_needs_no_baseline_and_is_of_the_same_family() -> None:
    totals = make_totals({"8/0": ALONE, "4/4": SHARING})
    totals["quality_J"] = [float("nan")] * 3 + [0.5, 0.25, 0.75]
    _, against_zero = results(totals, declared(), declared(measure="quality_J", test="zero", baseline=""))
    direct = stats.ttest_1samp([0.5, 0.25, 0.75], 0.0)
    assert (against_zero.n, against_zero.mean, against_zero.difference) == (3, 0.5, 0.5)
    assert (against_zero.n_baseline, against_zero.baseline_mean, against_zero.improvement) == (None, None, None)
    assert (against_zero.t, against_zero.p) == pytest.approx((direct.statistic, direct.pvalue))
    assert (against_zero.difference_low, against_zero.difference_high) == pytest.approx(
        tuple(direct.confidence_interval(0.95))
    )
    assert against_zero.p_holm != against_zero.p, "of two that were declared"


# ── two experiments or configurations side by side ──────────────────────────────────────────────────────────────────
def write_experiment(path: Path, name: str, rewards: Sequence[float]) -> None:
    """An experiment of one node, one reward a round."""
    file = Layout(path, name).metrics_file("alice")
    file.parent.mkdir(parents=True)
    for round_, reward in enumerate(rewards):
        append(file, msgspec.json.encode(make_row(Layout(path, name), "alice", round_, my_reward=reward)))


def write_study(path: Path, study: str, **rewards: Sequence[float]) -> None:
    """A study of one seed: configuration -> one reward a round."""
    runs = tuple(RunRecord(configuration=name, seed=1, experiment=f"{study}-{name}") for name in rewards)
    write(record_file(path, study), msgspec.structs.replace(make_record(*rewards), study=study, runs=runs))
    for run in runs:
        write_experiment(path, run.experiment, rewards[run.configuration])


def runs_of(name: str, *levels: float, rounds: int = 4) -> pd.DataFrame:
    """One run per level, of two nodes that have it in every round."""
    runs = [make_metrics([[level, level]] * rounds, name, seed) for seed, level in enumerate(levels)]
    return pd.concat(runs, ignore_index=True)


def test_two_experiments_are_compared_by_sums_and_thresholds(tmp_path: Path) -> None:
    write_experiment(tmp_path, "alone", [0.1, 0.1])
    write_experiment(tmp_path, "together", [0.1, 0.3])
    (found,) = compare_experiments(tmp_path, "alone", "together")
    assert (found.a, found.b, found.rounds) == ("alone", "together", 2)
    sums = found.totals.set_index("measure").loc["cumulative_reward"]
    assert sums.tolist() == pytest.approx([0.2, 0.4, 0.2, 100])
    assert (found.cumulative["improvement"], found.cumulative["p"]) == (pytest.approx(100), None)


def test_only_the_rounds_that_all_runs_have_are_compared() -> None:
    found = compare_runs("a", "b", runs_of("x", 0.1, rounds=6), runs_of("x", 0.2, rounds=3))
    assert found.rounds == 3
    assert found.totals.set_index("measure").loc["cumulative_reward", "a"] == pytest.approx(0.6)


def test_three_seeds_on_either_side_are_tested() -> None:
    found = compare_runs("a", "b", runs_of("x", 0.1, 0.2, 0.3), runs_of("x", 0.3, 0.5, 0.6))
    direct = stats.ttest_ind([2.4, 4.0, 4.8], [0.8, 1.6, 2.4], equal_var=False)
    assert found.cumulative["p"] == pytest.approx(direct.pvalue)
    assert found.cumulative["difference"] > 0, "a is the baseline"


def test_a_threshold_that_half_of_the_runs_never_reached_has_no_round() -> None:
    found = compare_runs("a", "b", runs_of("x", 0.1, 0.1, 0.9), runs_of("x", 0.8, 0.9, 1.0))
    assert found.thresholds["threshold"].tolist() == pytest.approx([0.225, 0.45, 0.675])
    assert found.thresholds["a"].isna().all()
    assert found.thresholds["b"].tolist() == [0, 0, 0]


def test_two_studies_are_compared_by_the_configurations_that_both_have_or_that_are_named(tmp_path: Path) -> None:
    write_study(tmp_path, "first", fixed=[0.1, 0.1], old=[0.5, 0.5])
    write_study(tmp_path, "second", new=[0.5, 0.5], fixed=[0.2, 0.2])
    (found,) = compare_experiments(tmp_path, "first", "second")
    assert (found.a, found.b) == ("first:fixed", "second:fixed")
    assert found.cumulative["improvement"] == pytest.approx(100)
    (named,) = compare_experiments(tmp_path, "first:old", "first:fixed")
    assert named.cumulative["improvement"] == pytest.approx(-80)
    (mixed,) = compare_experiments(tmp_path, "first:old", "first-fixed")
    assert mixed.b == "first-fixed"


def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    write_study(tmp_path, "first", fixed=[0.1], old=[0.5])
    write_study(tmp_path, "second", new=[0.5], newer=[0.2])
    write_experiment(tmp_path, "young", [])
    Layout(tmp_path, "young").root.mkdir(exist_ok=True)
    for a, b, said in (
        ("first", "second", "share no configuration: fixed, old against new, newer; name one"),
        ("first:odd", "second:new", "no rows of configuration 'odd'; there: fixed, old"),
        ("first:old", "young", "not one metrics row yet"),
        ("first:old", "first:old", "two different names, got 'first:old' twice"),
        ("nowhere", "first:old", "nowhere"),
    ):
        with pytest.raises((ConfigError, ExperimentError), match=said):
            compare_experiments(tmp_path, a, b)


@pytest.mark.parametrize(("values", "gains"), [({"8/0": [1, 2, 3]}, []), ({"8/0": [0.0], "4/4": [1.0]}, [math.nan])])
def test_an_effect_over_nothing_has_a_row_without_a_percentage_and_one_of_nothing_none(
    values: dict[str, list[float]], gains: list[float]
) -> None:
    totals, record = make_totals(values), make_record("8/0", "4/4")
    found = effect_by_start(totals, record, comparison_table(totals, record))["improvement"]
    assert found.tolist() == pytest.approx(gains, nan_ok=True)
