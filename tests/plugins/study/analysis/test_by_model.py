"""What nodes of unlike models earn, by hand."""

from __future__ import annotations

import pandas as pd
import pytest

from swarm.plugins.study.analysis.by_model import models_table, rewards_by_model, weaker_over_stronger
from swarm.plugins.study.analysis.measures import totals
from tests.plugins.study.analysis.frames_by_hand import make_metrics, make_record

RECORD = make_record("alone", "shared")


def metrics(name: str, seed: int, rewards: list[list[float]], models: list[str]) -> pd.DataFrame:
    found = make_metrics(rewards, name, seed)
    nodes = sorted(found["node_id"].unique())
    return found.assign(model=found["node_id"].map(dict(zip(nodes, models, strict=True))))


def test_the_mean_is_over_the_nodes_of_a_model_and_the_sum_over_the_rounds() -> None:
    rows = metrics("alone", 1, [[0.1, 0.3, 0.5], [0.2, 0.4, 0.6]], ["weak", "strong", "strong"])
    weak, strong = rewards_by_model(rows).to_dict("records")
    assert (weak["model"], weak["nodes"], weak["node_reward"]) == ("weak", 1, pytest.approx(0.3))
    assert (strong["model"], strong["nodes"], strong["node_reward"]) == ("strong", 2, pytest.approx(0.9))


def test_a_study_whose_swarms_have_one_model_each_has_no_such_rows() -> None:
    rows = pd.concat(
        [metrics("alone", 1, [[0.1, 0.3]], ["weak", "weak"]), metrics("shared", 1, [[0.1, 0.3]], ["strong", "strong"])]
    )
    assert rewards_by_model(rows).empty


def test_each_model_is_measured_by_itself_in_the_baseline() -> None:
    models = ["weak", "strong", "strong"]
    rows = pd.concat(
        metrics(name, seed, [[weak, strong, strong]], models)
        for name, seed, weak, strong in (
            ("alone", 1, 0.1, 0.4),
            ("alone", 2, 0.3, 0.6),
            ("shared", 1, 0.4, 0.5),
            ("shared", 2, 0.4, 0.5),
        )
    )
    table = models_table(rewards_by_model(rows), RECORD).set_index(["model", "configuration"])
    assert table.loc[("weak", "shared"), "improvement"] == pytest.approx(1.0)
    assert table.loc[("strong", "shared"), "improvement"] == pytest.approx(0.0)
    assert pd.isna(table.loc[("weak", "alone"), "improvement"])
    assert table.loc[("weak", "alone"), "runs"] == 2


def test_the_weaker_model_is_that_of_the_first_node_whatever_it_earned() -> None:
    models = ["late", "early", "early"]
    rows = pd.concat(
        metrics(name, 1, [[0.1, 0.2, 0.2], [late, 0.2, 0.2]], models)
        for name, late in (("alone", 0.1), ("shared", 0.9))
    )
    found = weaker_over_stronger(rows).droplevel(["seed", "experiment"])
    assert found["alone"] == pytest.approx(0.2 / 0.4)
    assert found["shared"] == pytest.approx(1.0 / 0.4)
    of_runs = totals(rows).set_index("configuration")["weaker_over_stronger"]
    assert of_runs.to_dict() == pytest.approx(found.to_dict())


def test_swarms_of_one_model_and_a_stronger_one_that_earned_nothing_have_no_ratio() -> None:
    one = metrics("alone", 1, [[0.1, 0.3]], ["weak", "weak"])
    assert totals(one)["weaker_over_stronger"].isna().all()
    none = metrics("alone", 1, [[0.0, 0.0]], ["weak", "strong"])
    assert weaker_over_stronger(none).isna().all()
