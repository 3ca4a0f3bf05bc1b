"""Rows of tables and figures that are more than one of the per-seed tables; none where a study has none of the kind."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from swarm.plugins.study.analysis.comparisons import effect_by_start, variance_table
from swarm.plugins.study.analysis.curves import FINAL_ROUNDS, RUN
from swarm.plugins.study.analysis.measures import rounds_to_threshold, thresholds_of
from swarm.plugins.study.analysis.planted import finals
from swarm.plugins.study.analysis.propagation import propagation
from swarm.plugins.study.analysis.splits import quality_and_split, split_measures
from swarm.plugins.study.analysis.supply import COLUMNS, supply_by_configuration
from swarm.plugins.study.report.evidence import DIGITS, NONE, Evidence


def configurations(evidence: Evidence) -> pd.DataFrame:
    """Returns the configurations of a study, with their settings."""
    return pd.DataFrame(
        {
            "configuration": found.name,
            "group": found.group or "–",
            "baseline": found.baseline or "–",
            "settings": listed(found.settings) or "–",
        }
        for found in evidence.record.configurations
    )


def listed(values: dict[str, Any]) -> str:
    """Returns names and values as `a = 1, b = text`."""
    told = {
        name: value if isinstance(value, str) else json.dumps(value, sort_keys=True) for name, value in values.items()
    }
    return ", ".join(f"{name} = {value}" for name, value in told.items())


def with_full_answers(evidence: Evidence) -> pd.DataFrame:
    """Returns the runs that count, with their shares of full answers in the first and the last FINAL_ROUNDS rounds."""
    runs = evidence.counted_rounds.dropna(subset=["full_answers"]).groupby(RUN, sort=False)["full_answers"]
    first = runs.agg(lambda shares: shares.head(FINAL_ROUNDS).mean()).rename("full_answers_first")
    last = runs.agg(lambda shares: shares.tail(FINAL_ROUNDS).mean()).rename("full_answers_last")
    return evidence.counted.join(first, on=RUN).join(last, on=RUN)


def variance(evidence: Evidence) -> pd.DataFrame:
    """Returns the analysis of variance of each group, to the digits that all processors agree on; an exploratory study
    tests nothing, and has none."""
    return variance_table(evidence.runs, evidence.record).round(DIGITS) if evidence.record.tests else NONE


def thresholds(evidence: Evidence) -> pd.DataFrame:
    """Returns how soon each run reached each threshold."""
    return rounds_to_threshold(evidence.counted_rounds, thresholds_of(evidence.counted))


def by_whose(knowledge: pd.DataFrame) -> pd.DataFrame:
    """Returns the accuracy of specialists above the best constant answer by run and round, others' tables and own."""
    return knowledge.pivot(index=[*RUN, "round"], columns="whose", values="above_constant").reset_index()


def planted(evidence: Evidence) -> pd.DataFrame:
    """Returns the runs that counted planted words, with how far pieces of them spread."""
    return finals(evidence.counted, evidence.planted)


def aha_moments(evidence: Evidence) -> pd.DataFrame:
    """Returns crossings and their learners by configuration."""
    if evidence.crossings.empty:
        return NONE
    return propagation(evidence.counted, evidence.crossings, evidence.learners)


def moved(splits: pd.DataFrame) -> pd.DataFrame:
    """Returns how J moved in each run."""
    return split_measures(splits).join(quality_and_split(splits), on=RUN)


def by_start(evidence: Evidence) -> pd.DataFrame:
    """Returns improvements beside the reward that they began with."""
    return effect_by_start(evidence.runs, evidence.record, evidence.compared)


def supply(evidence: Evidence) -> pd.DataFrame:
    """Returns expected and measured informative groups by configuration, of swarms of unlike sizes."""
    rounds = evidence.counted_rounds
    told = {*COLUMNS} <= {*rounds} and bool(rounds[[*COLUMNS]].notna().any().all())
    return supply_by_configuration(rounds, evidence.record) if evidence.record.sizes and told else NONE
