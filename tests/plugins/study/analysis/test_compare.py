"""Two experiments or configurations side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pandas as pd
import pytest
from scipy import stats

from swarm.errors import ConfigError, ExperimentError
from swarm.plugins.study.analysis.compare import compare_experiments, compare_runs
from swarm.plugins.study.analysis.comparisons import comparison_table, effect_by_start
from swarm.plugins.study.record import ConfigurationRecord, RunRecord
from tests.layout import Layout
from tests.plugins.study.analysis.frames_by_hand import make_metrics, make_record, make_totals
from tests.plugins.study.study_files import record_file
from tests.unit.views.factories import append, make_row, write


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
    assert (found.cumulative.improvement, found.cumulative.p) == (pytest.approx(100), None)


def test_only_the_rounds_that_all_runs_have_are_compared() -> None:
    found = compare_runs("a", "b", runs_of("x", 0.1, rounds=6), runs_of("x", 0.2, rounds=3))
    assert found.rounds == 3
    assert found.totals.set_index("measure").loc["cumulative_reward", "a"] == pytest.approx(0.6)


def test_three_seeds_on_either_side_are_tested() -> None:
    found = compare_runs("a", "b", runs_of("x", 0.1, 0.2, 0.3), runs_of("x", 0.3, 0.5, 0.6))
    direct = stats.ttest_ind([2.4, 4.0, 4.8], [0.8, 1.6, 2.4], equal_var=False)
    assert found.cumulative.p == pytest.approx(direct.pvalue)
    assert found.cumulative.baseline == "a"


def test_a_threshold_that_half_of_the_runs_never_reached_has_no_round() -> None:
    found = compare_runs("a", "b", runs_of("x", 0.1, 0.1, 0.9), runs_of("x", 0.8, 0.9, 1.0))
    assert found.thresholds["threshold"].tolist() == pytest.approx([0.225, 0.45, 0.675])
    assert found.thresholds["a"].isna().all()
    assert found.thresholds["b"].tolist() == [0, 0, 0]


def test_two_studies_are_compared_by_the_configurations_that_both_have(tmp_path: Path) -> None:
    write_study(tmp_path, "first", fixed=[0.1, 0.1], old=[0.5, 0.5])
    write_study(tmp_path, "second", new=[0.5, 0.5], fixed=[0.2, 0.2])
    (found,) = compare_experiments(tmp_path, "first", "second")
    assert (found.a, found.b) == ("first:fixed", "second:fixed")
    assert found.cumulative.improvement == pytest.approx(100)


def test_a_configuration_is_named_behind_its_study(tmp_path: Path) -> None:
    write_study(tmp_path, "first", fixed=[0.1, 0.1], old=[0.5, 0.5])
    (found,) = compare_experiments(tmp_path, "first:old", "first:fixed")
    assert found.cumulative.improvement == pytest.approx(-80)
    (mixed,) = compare_experiments(tmp_path, "first:old", "first-fixed")
    assert mixed.b == "first-fixed"


def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    write_study(tmp_path, "first", fixed=[0.1], old=[0.5])
    write_study(tmp_path, "second", new=[0.5], newer=[0.2])
    write_experiment(tmp_path, "young", [])
    Layout(tmp_path, "young").root.mkdir(exist_ok=True)
    with pytest.raises(ConfigError, match="share no configuration: fixed, old against new, newer; name one"):
        compare_experiments(tmp_path, "first", "second")
    with pytest.raises(ConfigError, match=r"no rows of configuration 'odd'; there: fixed, old"):
        compare_experiments(tmp_path, "first:odd", "second:new")
    with pytest.raises(ConfigError, match="not one metrics row yet"):
        compare_experiments(tmp_path, "first:old", "young")
    with pytest.raises(ConfigError, match="two different names, got 'first:old' twice"):
        compare_experiments(tmp_path, "first:old", "first:old")
    with pytest.raises(ExperimentError, match="nowhere"):
        compare_experiments(tmp_path, "nowhere", "first:old")


def test_the_effect_is_put_against_the_groups_starting_reward() -> None:
    record = make_record(
        ConfigurationRecord(name="8/0 warm", settings={}, group="warm"),
        ConfigurationRecord(name="4/4 warm", settings={}, group="warm", baseline="8/0 warm"),
        ConfigurationRecord(name="8/0 cold", settings={}, group="cold"),
        ConfigurationRecord(name="4/4 cold", settings={}, group="cold", baseline="8/0 cold"),
    )
    totals = make_totals(
        {"8/0 warm": [10, 12, 14], "4/4 warm": [11, 12, 16], "8/0 cold": [1, 2, 3], "4/4 cold": [3, 4, 5]}
    )
    totals["starting_reward"] = [0.3] * 3 + [0.5] * 3 + [0.1, 0.1, 0.1, 0.1, 0.1, 0.4]
    cold, warm = effect_by_start(totals, record, comparison_table(totals, record)).to_dict("records")
    assert (cold["group"], cold["configuration"], cold["baseline"], cold["n"]) == ("cold", "4/4 cold", "8/0 cold", 3)
    assert (cold["starting_reward"], cold["improvement"]) == (pytest.approx(0.15), pytest.approx(100))
    assert (warm["starting_reward"], warm["improvement"]) == (pytest.approx(0.4), pytest.approx(100 / 12))


@pytest.mark.parametrize(("values", "gains"), [({"8/0": [1, 2, 3]}, []), ({"8/0": [0.0], "4/4": [1.0]}, [math.nan])])
def test_an_effect_over_nothing_has_a_row_without_a_percentage_and_one_of_nothing_none(
    values: dict[str, list[float]], gains: list[float]
) -> None:
    totals, record = make_totals(values), make_record("8/0", "4/4")
    found = effect_by_start(totals, record, comparison_table(totals, record))["improvement"]
    assert found.tolist() == pytest.approx(gains, nan_ok=True)
