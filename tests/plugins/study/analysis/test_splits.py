"""How J moved, by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from statistics import fmean
from typing import Any

import pandas as pd
import pytest

from swarm.plugins.study.analysis.splits import (
    moves_by_configuration,
    quality_and_split,
    split_measures,
    splits_by_round,
)
from swarm.plugins.study.analysis.supply import expected_informative
from swarm.plugins.study.budget import not_adapting
from swarm.plugins.study.record import ConfigurationRecord
from tests.plugins.study.analysis.frames_by_hand import make_metrics, make_record


def metrics(J: Sequence[Sequence[float]], seed: int = 1, **columns: Any) -> pd.DataFrame:
    """J[round][node], whose rounded value is what the node asks for."""
    rows = make_metrics([[0.1] * len(of_nodes) for of_nodes in J], "gradient", seed, **columns)
    wanted = [value for of_nodes in J for value in of_nodes]
    return rows.assign(adaptive_J=[float(round(value)) for value in wanted], adaptive_J_continuous=wanted)


def measured(J: Sequence[float]) -> dict[str, Any]:
    (found,) = split_measures(splits_by_round(metrics([[value] for value in J]))).to_dict("records")
    return {str(name): value for name, value in found.items()}


def test_a_round_is_the_mean_over_its_nodes() -> None:
    rows = metrics([[2.0, 4.0], [2.6, 4.0], [2.0, 4.2]]).assign(
        zero_advantage_local=[0.5, 1.0, 0.0, 0.5, 0.0, 0.0],
        pool_groups=[10, 0, 10, 10, 0, 0],
        pool_informative=[4, 0, 2, 4, 0, 0],
    )
    found = splits_by_round(rows)
    assert found["J"].tolist() == pytest.approx([3.0, 3.3, 3.1])
    assert found["changed"].tolist()[1:] == [0.5, 0.5]  # alice goes to 3 and back
    assert math.isnan(found["changed"][0])
    assert found["own_informative"].tolist() == pytest.approx([0.25, 0.75, 1.0])
    assert found["swarm_quality"].tolist()[:2] == pytest.approx([0.4, 0.3])  # of the nodes that saw a group
    assert math.isnan(found["swarm_quality"][2])


def test_thirds_are_of_the_rounds_that_each_run_has() -> None:
    found = measured([1.0] * 4 + [3.0] * 4 + [5.0] * 4)
    assert (found["J_first"], found["J_middle"], found["J_last"]) == (1.0, 3.0, 5.0)
    assert found["changes"] == pytest.approx(2 / 11)
    two = split_measures(splits_by_round(pd.concat([metrics([[1.0, 5.0]] * 12, 1), metrics([[2.0, 2.0]] * 12, 2)])))
    assert two[["seed", "J_first", "changes"]].to_numpy().tolist() == [[1, 3.0, 0.0], [2, 2.0, 0.0]]
    assert splits_by_round(make_metrics([[0.1, 0.2]])).empty, "rows without a rule"


@pytest.mark.parametrize(
    ("J", "settled"),
    [
        ([4.0] * 12, 0),
        ([1.0, 2.0, 3.0] + [4.0] * 12, 3),
        ([4.0] * 3 + [2.0] + [4.0] * 12, 4),  # it came back
        ([4.0] * 12 + [1.0] + [4.0] * 2, None),  # within the last ten rounds
        ([4.0] * 5, None),  # fewer rounds than those which say where it came to
    ],
)
def test_j_has_settled_once_it_stays(J: list[float], settled: int | None) -> None:
    found = measured(J)["settled"]
    assert math.isnan(found) if settled is None else found == settled


def with_quality(quality: Sequence[float], J: Sequence[float]) -> dict[str, Any]:
    rows = metrics([[value] for value in J]).assign(
        pool_groups=100, pool_informative=[100 * q for q in quality], zero_advantage_local=0.0
    )
    (found,) = quality_and_split(splits_by_round(rows)).to_dict("records")
    return {str(name): value for name, value in found.items()}


def test_quality_and_j_that_move_together_are_told_from_two_that_only_rise() -> None:
    together = with_quality([0.1, 0.5, 0.2, 0.6], [1.0, 3.0, 1.5, 3.5])
    assert together["quality_J"] == pytest.approx(1.0)
    assert together["quality_J_changes"] == pytest.approx(1.0)
    rising = with_quality([0.1, 0.3, 0.4, 0.6, 0.7], [1.0, 1.1, 1.3, 1.4, 1.6])
    assert rising["quality_J"] > 0.9
    assert rising["quality_J_changes"] == pytest.approx(-1.0)
    assert math.isnan(with_quality([0.1, 0.5, 0.2], [2.0, 2.0, 2.0])["quality_J"]), "a J that never changed"


@pytest.mark.parametrize(("last", "adapted"), [(4.25, False), (4.5, True)])
def test_a_rule_that_never_left_its_first_j_is_said_in_plain_words(last: float, adapted: bool) -> None:
    rule = ConfigurationRecord(name="gradient", settings={"adaptive": True, "adaptive_rule": "gradient"})
    splits = splits_by_round(metrics([[4.0]] * 2 + [[last], [4.0]]))
    found = not_adapting(make_record("4/4", rule), moves_by_configuration(splits))
    assert bool(found) != adapted
    assert adapted or "gradient did not adapt: J was never more than 0.250 away" in found[0]
    assert moves_by_configuration(splits.drop(columns=["furthest"])) == {}, "tables that do not tell"


# ── informative groups, by theory and out of rounds ─────────────────────────────────────────────────────────────────
def simulated(nodes: int, local: int, external: int, successes: list[float], group_size: int) -> float:
    """The mean over many rounds of what one node of such a swarm trains on."""
    rng = Random(7)

    def informative() -> bool:
        p = rng.choice(successes)
        return 0 < sum(rng.random() < p for _ in range(group_size)) < group_size

    def one_round() -> int:
        own, pool = (sum(informative() for _ in range(groups)) for groups in (local, (nodes - 1) * local))
        return own + min(external, pool)

    return fmean(one_round() for _ in range(4000))


@pytest.mark.parametrize(("nodes", "local", "external"), [(1, 4, 4), (2, 4, 4), (8, 4, 4), (8, 2, 6), (4, 8, 0)])
def test_the_expected_number_is_the_mean_of_a_simulation(nodes: int, local: int, external: int) -> None:
    successes = [0.0, 0.02, 0.3, 1.0]
    share = fmean(1 - p**4 - (1 - p) ** 4 for p in successes)
    expected = expected_informative(nodes, local, external, share)
    assert expected == pytest.approx(simulated(nodes, local, external, successes, 4), rel=0.05)
