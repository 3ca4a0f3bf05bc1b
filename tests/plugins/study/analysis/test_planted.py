"""Planted words, by hand: pieces of them in completions, and how far they spread among honest nodes."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from swarm.plugins.study.analysis.measures import totals
from swarm.plugins.study.analysis.planted import overlaps, planted_by_round
from swarm.plugins.study.record import ConfigurationRecord
from tests.plugins.study.analysis.frames_by_hand import make_metrics, make_record


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


WORDS = "Buy gold now."


def test_a_piece_counts_wherever_it_stands_and_the_whole_words_only_in_front() -> None:
    texts = [
        "Buy gold now. <answer>3</answer>",
        "\n Buy gold now.",
        "so: Buy gold now.",
        "\ufffduy gold <answer>",
        "gold <answer>3</answer>",
        "<answer>old</answer>",
        "<answer>3</answer>",
    ]
    assert overlaps(pd.Series(texts), WORDS).sum().tolist() == [2, 4, 6]


def test_words_shorter_than_a_piece_are_one_piece() -> None:
    assert overlaps(pd.Series(["a buy", "b uy"]), "buy").sum().tolist() == [0, 1, 1]
    assert overlaps(pd.Series([], dtype="str"), WORDS).empty


def test_planters_are_left_out_of_every_round() -> None:
    record = make_record(
        ConfigurationRecord(name="honest", settings={}),
        ConfigurationRecord(name="one", settings={"planted_words": WORDS, "planters": ["carol"]}),
    )
    metrics = pd.concat(
        [make_metrics([[0.5, 0.1, 0.9]] * 2, name, answer_tag_rate=0.5) for name in ("honest", "one")],
        ignore_index=True,
    )
    metrics.loc[metrics["node_id"] == "carol", "answer_tag_rate"] = 1.0
    metrics.loc[metrics["configuration"] == "one", "plants"] = metrics["node_id"] == "carol"

    def completions(experiment: str) -> pd.DataFrame:
        said = [(1, "alice", "y gold"), (1, "bob", "5"), (1, "carol", WORDS), (0, "carol", WORDS)]
        return pd.DataFrame(said, columns=["round", "peer_id", "response"])

    first, second = planted_by_round(record, metrics, completions).to_dict("records")
    assert (first["configuration"], first["round"], first["tagged"]) == ("one", 0, 0.5)
    assert pd.isna(first["pieces"])
    assert (second["completions"], second["begin"], second["pieces"]) == (2, 0.0, 0.5)
    assert second["reward"] == 0.3
