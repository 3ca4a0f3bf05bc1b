"""How soon and how steadily runs rose, as the report's tables say it."""

from __future__ import annotations

import pandas as pd

from swarm.plugins.study.analysis.measures import agent_average, totals
from swarm.plugins.study.report.parts import Table
from swarm.plugins.study.report.sections import SECTIONS
from tests.plugins.study.analysis.frames_by_hand import make_metrics
from tests.plugins.study.report.report_factory import make_evidence, make_record


def test_a_median_round_knows_of_the_seeds_that_never_got_there() -> None:
    at_once, at_4, never = [[0.8]] * 8, [[0.0]] * 4 + [[0.8]] * 4, [[0.0]] * 8
    runs = {"all": [at_once, at_once, at_4], "most": [at_once, at_4, never], "few": [at_once, never, never]}
    frames = [make_metrics(run, name, seed) for name, own in runs.items() for seed, run in enumerate(own)]
    metrics = pd.concat(frames, ignore_index=True)
    record = make_record("small", tuple(runs), (0, 1, 2), ("alice",), 8)
    evidence = make_evidence(record, runs=totals(metrics), rounds=agent_average(metrics))
    (table,) = next(one.parts for one in SECTIONS if one.title == "Rounds to a threshold")
    assert isinstance(table, Table)
    lowest = table.frame(evidence).groupby("configuration", sort=False).first()
    assert lowest["reached"].tolist() == [3, 2, 1]
    assert lowest["first"].tolist() == [0.0, 0.0, 0.0]
    medians = lowest[["round", "tokens_per_node", "trained_per_node", "seconds"]]
    assert medians.loc["all"].tolist() == [0.0, 100.0, 50.0, 4.0]
    assert medians.loc["most"].tolist() == [5.0, 600.0, 300.0, 24.0]
    assert medians.loc["few"].isna().all()
