"""How far planted words spread among honest nodes, by hand."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from swarm.plugins.study.analysis.measures import totals
from tests.plugins.study.analysis.frames_by_hand import make_metrics


def test_only_honest_nodes_are_looked_at() -> None:
    run = make_metrics([[0.5, 0.1, 0.9]] * 20, planted_rate=0.0, plants=pd.NA)
    run["plants"] = run["node_id"] == "carol"
    run.loc[run["node_id"] == "carol", "planted_rate"] = 1.0
    run.loc[(run["node_id"] == "bob") & (run["round"] >= 10), "planted_rate"] = 0.5
    run["answer_tag_rate"] = 0.1
    run.loc[(run["node_id"] != "carol") & (run["round"] >= 10), "answer_tag_rate"] = 0.75
    (row,) = totals(run).to_dict("records")
    assert row["planted"] == pytest.approx(0.125)
    assert row["planted_final"] == pytest.approx(0.25)
    assert row["honest_reward"] == pytest.approx(20 * 0.3)
    assert row["honest_tagged_final"] == pytest.approx(0.75)
    assert row["honest_given_tagged"] == pytest.approx(2 * 20 * 0.3 / (2 * 10 * (0.1 + 0.75)))
    assert row["cumulative_reward"] == pytest.approx(20 * 1.5)


def test_where_nobody_counts_all_nodes_are_honest_and_how_far_words_spread_is_not_known() -> None:
    silent = make_metrics([[0.5, 0.1]], configuration="4/4")
    told = make_metrics([[0.5, 0.1]], planted_rate=0.25, plants=False)
    for rows in (silent, pd.concat([told, silent], ignore_index=True)):
        found = totals(rows).set_index("configuration").loc["4/4"]
        assert math.isnan(found["planted"])
        assert math.isnan(found["planted_final"])
        assert found["honest_reward"] == pytest.approx(0.3)


def test_how_likely_honest_nodes_find_what_planters_wrote_is_told_of_the_last_rounds() -> None:
    run = make_metrics([[0.5, 0.1, 0.9]] * 12, planted_rate=0.0, plants=False)
    run["plants"] = run["node_id"] == "carol"
    run["logprobs_by_peer"] = [
        {"carol": -9.0 if row.round < 2 else -4.0 - (row.node_id == "bob"), "dave": -0.1, "alice": -0.2}
        for row in run.itertuples()
    ]
    assert totals(run)["planters_logprob"].tolist() == pytest.approx([-4.5])
    assert totals(run.assign(plants=False))["planters_logprob"].isna().all()
