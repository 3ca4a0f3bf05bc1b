"""The table of planted words, by hand."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

import pandas as pd

from swarm.study.report.sections_planted import planted_section, planted_table
from tests.unit.study.report.report_factory import make_evidence, make_record

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
        "honest_reward": [1.0, 0.5, 0.7],
    }
)
RECORD = make_record("poison", ("honest", "two"), (1, 2), ("a", "b"), 3)


def test_means_over_seeds_stand_beside_the_least_and_the_most() -> None:
    honest, two = planted_table(make_evidence(RECORD, runs=RUNS)).to_dict("records")
    assert (honest["planted"], honest["honest_reward"]) == (0.0, 1.0)
    assert (two["planted"], two["least"], two["most"], two["planted_final"]) == (0.5, 0.25, 0.75, 0.75)
    assert two["planters_logprob"] == -4.0
    assert two["honest_reward"] == pytest.approx(0.6)


@pytest.mark.parametrize("runs", [RUNS.drop(columns="planted"), RUNS.assign(planted=float("nan"))])
def test_studies_without_planted_words_have_no_such_section(runs: pd.DataFrame) -> None:
    assert planted_section(make_evidence(RECORD, runs=runs)) is None
