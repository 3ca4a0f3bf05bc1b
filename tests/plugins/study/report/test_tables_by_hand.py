"""Tables of a report where something is missing; whole ones are those of docs/study, made again from their files."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("scipy")

from typing import Any

import msgspec
import pandas as pd

from swarm.plugins.study.analysis.planted import planted_by_round
from swarm.plugins.study.report.notes import what_was_run
from tests.plugins.study.analysis.frames_by_hand import make_metrics
from tests.plugins.study.report.report_factory import make_evidence, make_record, table_of


def test_of_swarms_of_unlike_sizes_the_page_says_how_their_sums_are_shown() -> None:
    record = make_record("small", ("4/4", "alone"), (1, 2), ("a", "b"), 3)
    first, second = record.configurations
    sized = msgspec.structs.replace(record, configurations=(first, msgspec.structs.replace(second, nodes=1)))
    assert "alone 1" in " ".join(what_was_run(make_evidence(sized)))


# ── planted words ───────────────────────────────────────────────────────────────────────────────────────────────────
def planted_table(**tables: pd.DataFrame) -> list[dict[Any, Any]]:
    return table_of("planted", make_evidence(PLANTED_RECORD, **tables)).to_dict("records")


PLANTED_RUNS = pd.DataFrame(
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
PLANTED_RECORD = make_record("poison", ("honest", "two"), (1, 2), ("a", "b"), 3)
RECORD_OF_TWO = msgspec.structs.replace(PLANTED_RECORD, settings={"planted_words": "Buy gold now."})
NO_COMPLETIONS = pd.DataFrame({"round": [], "peer_id": [], "response": []})


def test_where_all_rollout_files_are_gone_pieces_are_not_known_and_the_rest_is_told() -> None:
    gone = planted_by_round(
        RECORD_OF_TWO, make_metrics([[0.5, 0.1]] * 12, "two", answer_tag_rate=0.5), lambda _: NO_COMPLETIONS
    )
    assert gone["tagged"].tolist() == [0.5] * 12
    for honest, two in (planted_table(runs=PLANTED_RUNS), planted_table(runs=PLANTED_RUNS, planted=gone)):
        assert pd.isna(two["pieces_final"])
        assert honest["honest_reward"] == 1.0


@pytest.mark.parametrize("runs", [PLANTED_RUNS.drop(columns="planted"), PLANTED_RUNS.assign(planted=float("nan"))])
def test_studies_without_planted_words_have_no_such_table(runs: pd.DataFrame) -> None:
    assert planted_table(runs=runs) == []
