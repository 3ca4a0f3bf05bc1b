"""The numbers of a report, recomputed from committed folders and held against values worked out independently.

The totals below are added up by hand in 64ths: three nodes x six rounds give 18 LEVEL + 45 GAIN + 18 LUCK + 18, less
what the late and the silent node of 2/2 miss (see tests/plugins/study/make_study.py). scipy is called on them directly.
"""

from __future__ import annotations

import math
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from swarm.plugins.study import get_study_metrics
from swarm.plugins.study.record import read_study
from tests.plugins.study import make_study
from tests.unit.views.tables.small_study import SMALL

pytest.importorskip("pandas")
stats = pytest.importorskip("scipy.stats")

ALONE = [135 / 64, 153 / 64, 189 / 64]
"""4/0: 72 + 45 + 18, and 18 and 54 more by luck."""
SHARING = [252 / 64, 262 / 64, 174 / 64]
"""2/2: 144 + 90 + 18 = 252; 252 + 36 - 12 - 14 without two rounds of a node; 252 + 18 - 96 without a whole node."""
ADAPTIVE = [279 / 64, 261 / 64, 333 / 64]
"""adaptive: 108 + 135 + 18 = 261, and 18, 0 and 72 more by luck."""


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_the_committed_study_is_what_its_script_makes(tmp_path: Path) -> None:
    make_study.main(tmp_path)
    made = files_of(tmp_path)
    assert made == files_of(SMALL)
    assert sum(map(len, made.values())) < 200_000


def sums_of_runs() -> Any:
    from swarm.plugins.study.analysis.measures import totals

    return totals(get_study_metrics(SMALL, "small"))


def test_cumulative_rewards_are_those_added_up_by_hand() -> None:
    found = sums_of_runs().set_index(["configuration", "seed"])
    assert found["cumulative_reward"].loc["4/0"].tolist() == ALONE
    assert found["cumulative_reward"].loc["2/2"].tolist() == SHARING
    assert found["cumulative_reward"].loc["adaptive"].tolist() == ADAPTIVE
    assert found["nodes"].tolist() == [3, 3, 3, 3, 3, 2, 3, 3, 3]
    assert found["rounds"].unique().tolist() == [6]
    assert found["bytes_published"].loc[("2/2", 2)] == (6 + 6 + 4) * 2000
    assert found["mean_adaptive_J"].loc[("adaptive", 1)] == 2


def test_rewards_given_tagged_are_known_of_old_and_new_runs() -> None:
    found = sums_of_runs()
    assert found["reward_given_tagged"].tolist() == [0.5] * 9
    assert found["cumulative_tagged"].tolist() == [2 * total for total in (*ALONE, *SHARING, *ADAPTIVE)]


def test_the_comparison_is_scipys_on_the_same_numbers() -> None:
    from swarm.plugins.study.analysis.comparisons import compare_with_baseline, variance_by_group

    record, sums = read_study(SMALL, "small"), sums_of_runs()
    found = {row.configuration: row for row in compare_with_baseline(sums, record)}
    assert list(found) == ["4/0", "2/2", "adaptive"]
    assert found["4/0"].p is None
    for name, values in (("2/2", SHARING), ("adaptive", ADAPTIVE)):
        welch = stats.ttest_ind(values, ALONE, equal_var=False)
        assert found[name].p == pytest.approx(welch.pvalue, rel=1e-12)
        assert found[name].t == pytest.approx(welch.statistic, rel=1e-12)
        assert found[name].hedges_g == pytest.approx(hedges_by_hand(values, ALONE), rel=1e-12)
    (variance,) = variance_by_group(sums, record)
    expected = stats.f_oneway(ALONE, SHARING, ADAPTIVE)
    assert (variance.anova.f, variance.anova.p) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-12)


def hedges_by_hand(a: list[float], b: list[float]) -> float:
    """Two samples of three: four degrees of freedom, for which J = Gamma(2) / (sqrt(2) Gamma(3/2)) = sqrt(2 / pi)."""
    pooled = math.sqrt((stdev(a) ** 2 + stdev(b) ** 2) / 2)
    return math.sqrt(2 / math.pi) * (fmean(a) - fmean(b)) / pooled


def test_improvements_and_adjusted_p_values_are_those_by_hand() -> None:
    from swarm.plugins.study.analysis.comparisons import compare_with_baseline

    sums = sums_of_runs()
    found = {row.configuration: row for row in compare_with_baseline(sums, read_study(SMALL, "small"))}
    assert found["2/2"].improvement == pytest.approx(100 * (688 / 477 - 1))
    assert found["adaptive"].improvement == pytest.approx(100 * (873 / 477 - 1))
    sharing, adaptive = (stats.ttest_ind(v, ALONE, equal_var=False).pvalue for v in (SHARING, ADAPTIVE))
    assert adaptive < sharing  # so Holm doubles the one of adaptive and leaves the other
    assert found["adaptive"].p_holm == pytest.approx(2 * adaptive)
    assert found["2/2"].p_holm == pytest.approx(max(sharing, 2 * adaptive))
