"""The table of planted words, by hand."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("matplotlib")

import msgspec
import pandas as pd

from swarm.plugins.study.analysis.planted import planted_by_round
from tests.plugins.study.analysis.frames_by_hand import make_metrics
from tests.plugins.study.report.report_factory import make_evidence, make_record, table_of


def planted_table(**tables: pd.DataFrame) -> list[dict[Any, Any]]:
    return table_of("planted", make_evidence(RECORD, **tables)).to_dict("records")


RUNS = pd.DataFrame(
    {
        "configuration": ["honest", "two", "two"],
        "seed": [1, 1, 2],
        "experiment": ["a", "b", "c"],
        "rounds": 3,
        "cumulative_reward": [8.0, 4.0, 6.0],
        "planted": [0.0, 0.25, 0.75],
        "planted_final": [0.0, 0.5, 1.0],
        "planters_logprob": [float("nan"), -3.0, -5.0],
        "honest_tagged_final": [0.9, 0.2, 0.4],
        "honest_given_tagged": [0.5, 0.1, 0.2],
        "honest_reward": [1.0, 0.5, 0.7],
    }
)
RECORD = make_record("poison", ("honest", "two"), (1, 2), ("a", "b"), 3)
RECORD_OF_TWO = msgspec.structs.replace(RECORD, settings={"planted_words": "Buy gold now."})
NO_COMPLETIONS = pd.DataFrame({"round": [], "peer_id": [], "response": []})


ROUNDS = pd.DataFrame(
    [
        {
            "configuration": name,
            "seed": seed,
            "experiment": run,
            "round": round_,
            "pieces": share,
            "shards": 0.5,
            "tagged": 0.5,
        }
        for name, seed, run, share in (("honest", 1, "a", 0.0), ("two", 1, "b", 0.1), ("two", 2, "c", 0.3))
        for round_ in range(20)
    ]
)


def test_means_over_seeds_stand_beside_the_least_and_the_most() -> None:
    rounds = ROUNDS.assign(pieces=ROUNDS["pieces"].where(ROUNDS["round"] >= 10, 0.9))
    honest, two = planted_table(runs=RUNS, planted=rounds)
    assert (honest["planted_final"], honest["pieces_final"], honest["honest_reward"]) == (0.0, 0.0, 1.0)
    assert (two["planted_final"], two["planters_logprob"]) == (0.75, -4.0)
    assert [two[f"pieces_{name}"] for name in ("final", "least", "most")] == pytest.approx([0.2, 0.1, 0.3])
    assert two["honest_tagged_final"] == pytest.approx(0.3)
    assert two["honest_reward"] == pytest.approx(0.6)


def test_where_all_rollout_files_are_gone_pieces_are_not_known_and_the_rest_is_told() -> None:
    gone = planted_by_round(
        RECORD_OF_TWO, make_metrics([[0.5, 0.1]] * 12, "two", answer_tag_rate=0.5), lambda _: NO_COMPLETIONS
    )
    assert gone["tagged"].tolist() == [0.5] * 12
    for honest, two in (planted_table(runs=RUNS), planted_table(runs=RUNS, planted=gone)):
        assert pd.isna(two["pieces_final"])
        assert honest["honest_reward"] == 1.0


@pytest.mark.parametrize("runs", [RUNS.drop(columns="planted"), RUNS.assign(planted=float("nan"))])
def test_studies_without_planted_words_have_no_such_table(runs: pd.DataFrame) -> None:
    assert planted_table(runs=runs) == []
