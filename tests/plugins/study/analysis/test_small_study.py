"""The numbers of a report, recomputed from committed folders and held against values worked out independently.

The totals below are added up by hand in 64ths: three nodes x six rounds give 18 LEVEL + 45 GAIN + 18 LUCK + 18, less
what the late and the silent node of 2/2 miss (see tests/plugins/study/make_study.py). scipy is called on them directly.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from swarm.plugins.study import get_study_metrics
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
