"""Pieces of planted words in completions, by hand."""

from __future__ import annotations

import pandas as pd

from swarm.plugins.study.analysis.overlap import overlap
from swarm.plugins.study.analysis.planted import planted_by_round
from swarm.plugins.study.record import ConfigurationRecord
from tests.plugins.study.analysis.frames_by_hand import make_metrics, make_record

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
    assert overlap(texts, WORDS) == (7, 2, 4, 6)


def test_words_shorter_than_a_piece_are_one_piece() -> None:
    assert overlap(["a buy", "b uy"], "buy") == (2, 0, 1, 1)
    assert overlap([], WORDS) == (0, 0, 0, 0)


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
