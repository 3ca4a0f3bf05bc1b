"""Aha moments: the first sustained crossing, the lag behind the first node, and whose groups came before it."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from scipy import stats

from swarm.plugins.study.analysis.propagation import (
    crossings,
    first_sustained,
    learners,
    meetings,
    possible,
    propagation,
)
from tests.plugins.study.analysis.frames_by_hand import make_metrics, make_task_rows

LATE, LATER = [0.0] * 3 + [1.0] * 12, [0.0] * 6 + [1.0] * 9
"""Meetings whose trailing mean of three is at least 0.5 from the fifth, and from the eighth on."""


def place(rewards: list[float], sustained: int = 2) -> int | None:
    return first_sustained(pd.Series(rewards), threshold=0.5, window=2, sustained=sustained)


@pytest.mark.parametrize(
    ("rewards", "crossed"),
    [
        ([0.0, 0.0, 1.0, 1.0, 1.0], 2),  # means 0, 0.5, 1, 1 from the second meeting on
        ([0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0], 4),  # a high mean that does not last
        ([1.0, 1.0, 1.0, 1.0], 1),  # the first full window
        ([0.0, 0.0, 1.0, 1.0], None),  # too short to show it
        ([1.0], None),
        ([], None),
    ],
)
def test_it_crosses_where_the_trailing_mean_reaches_the_threshold_and_stays(
    rewards: list[float], crossed: int | None
) -> None:
    assert place(rewards) == crossed


def test_a_meeting_is_a_round_in_which_the_node_had_the_task() -> None:
    rows = make_metrics([[0.1], [0.2]]).assign(task_rewards=[{"sums": 0.5, "bits": 1.0}, {"bits": 0.0}])
    found = meetings(rows)[["task", "node_id", "round", "reward"]].to_numpy().tolist()
    assert found == [["bits", "alice", 0, 1.0], ["bits", "alice", 1, 0.0], ["sums", "alice", 0, 0.5]]


def test_the_lag_is_in_rounds_though_the_crossing_is_judged_by_meetings() -> None:
    found = crossings(make_task_rows({"bob": LATER, "alice": LATE, "carol": [0.0] * 15}, every=3))
    assert found[["node_id", "round", "lag"]].to_numpy().tolist() == [["alice", 12, 0], ["bob", 21, 9]]
    assert not found["from_start"].any()


def test_a_node_that_knew_the_task_is_marked_and_is_no_learner() -> None:
    rows = make_task_rows({"alice": LATE, "bob": [1.0] * 15})
    found = crossings(rows).set_index("node_id")
    assert found.loc["bob", ["round", "from_start", "lag"]].tolist() == [2, True, 0]
    assert learners(rows, crossings(rows))["node_id"].tolist() == ["alice"]


def test_a_node_that_came_late_and_knew_the_task_is_no_learner_either() -> None:
    rows = pd.concat([make_task_rows({"alice": LATE}), make_task_rows({"bob": [1.0] * 15}, every=3)], ignore_index=True)
    crossed = crossings(rows)
    assert crossed[["node_id", "lag", "from_start"]].to_numpy().tolist() == [["alice", 0, False], ["bob", 2, True]]
    assert learners(rows, crossed).empty


def test_tasks_and_runs_have_their_own_first_nodes() -> None:
    rows = pd.concat(
        [
            make_task_rows({"alice": LATE}, "sums"),
            make_task_rows({"bob": LATER}, "bits"),
            make_task_rows({"bob": LATER}, "sums", seed=2),
        ],
        ignore_index=True,
    )
    assert crossings(rows)["lag"].tolist() == [0, 0, 0]


def taught(**groups: int) -> pd.DataFrame:
    """alice crosses in round 4; bob in round 7, after seven rounds with as many groups of each peer; carol never."""
    rows = make_task_rows({"alice": LATE, "bob": LATER, "carol": [0.0] * 15})
    by_task = {peer: {"sums": number, "bits": 1} for peer, number in groups.items()}
    return rows.assign(external_by_peer_task=[by_task] * len(rows))


def test_groups_on_the_task_itself_are_counted() -> None:
    rows = taught(alice=2, carol=1)
    (found,) = learners(rows, crossings(rows)).to_dict("records")
    assert (found["node_id"], found["round"], found["lag"], found["earlier"]) == ("bob", 7, 3, 1)
    assert (found["groups"], found["from_earlier"]) == (21, 14)
    assert (found["share"], found["chance"]) == (pytest.approx(2 / 3), 0.5)


def test_nodes_that_cross_together_have_not_learned_from_each_other() -> None:
    rows = make_task_rows({"alice": LATE, "bob": LATER, "carol": LATER})
    found = learners(rows, crossings(rows))
    assert found["node_id"].tolist() == ["bob", "carol"]
    assert found["earlier"].tolist() == [1, 1]


def test_the_summary_has_a_row_for_every_configuration() -> None:
    isolated = make_task_rows({"alice": [0.0] * 15}, configuration="8/0")
    rows = pd.concat([isolated, taught(alice=3, carol=1)], ignore_index=True)
    rows["configuration"] = ["8/0"] * len(isolated) + ["4/4"] * (len(rows) - len(isolated))
    crossed = crossings(rows)
    runs = possible(rows).rename("possible").reset_index().iloc[::-1]
    none, some = propagation(runs, crossed, learners(rows, crossed)).to_dict("records")
    assert (none["configuration"], none["crossings"], none["possible"], none["learners"]) == ("8/0", 0, 1, 0)
    assert (some["configuration"], some["crossings"], some["possible"], some["learners"]) == ("4/4", 2, 3, 1)
    assert (some["median_lag"], some["share"], some["chance"], some["excess"]) == (3, 0.75, 0.5, 0.25)
    assert (some["runs"], none["runs"]) == (1, 0)
    assert math.isnan(some["excess_low"])


def test_shares_above_chance_have_an_interval_over_runs_not_over_learners() -> None:
    said = [{"alice": 3, "carol": 1}, {"alice": 1, "carol": 1}, {"alice": 2, "carol": 1}]
    runs = [taught(**counts).assign(seed=seed, experiment=f"run {seed}") for seed, counts in enumerate(said)]
    rows = pd.concat(runs, ignore_index=True)
    crossed = crossings(rows)
    (found,) = propagation(possible(rows).rename("possible").reset_index(), crossed, learners(rows, crossed)).to_dict(
        "records"
    )
    excess = [3 / 4 - 1 / 2, 0, 2 / 3 - 1 / 2]
    expected = stats.ttest_1samp(excess, 0.0).confidence_interval(0.95)
    assert found["runs"] == 3
    assert (found["excess_low"], found["excess_high"]) == pytest.approx((expected.low, expected.high))


def test_no_crossing_at_all_is_an_empty_table() -> None:
    rows = make_task_rows({"alice": [0.0] * 15})
    assert crossings(rows).empty
    assert learners(rows, crossings(rows)).empty
