"""Frames behind the tables of a report that are more than measures of groups of rows."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from swarm.plugins.study.analysis.curves import FINAL_ROUNDS, by_seed, ratio
from swarm.plugins.study.analysis.effect_size import mean_by
from swarm.plugins.study.analysis.learned import exam_by_knowledge, starts_and_ends, taught_by
from swarm.plugins.study.analysis.measures import SPENT, rounds_to_threshold, thresholds_of
from swarm.plugins.study.analysis.planted import planted_table
from swarm.plugins.study.analysis.supply import supply_by_configuration
from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.parts import MISSING


def configurations(evidence: Evidence) -> pd.DataFrame:
    """Returns the configurations of a study, with their settings."""
    return pd.DataFrame(
        {
            "configuration": found.name,
            "group": found.group or MISSING,
            "baseline": found.baseline or MISSING,
            "settings": ", ".join(f"{name} = {_value(value)}" for name, value in found.settings.items()) or MISSING,
        }
        for found in evidence.record.configurations
    )


def pairs(values: dict[str, Any]) -> pd.DataFrame:
    rows = [{"name": name, "value": _value(value)} for name, value in values.items()]
    return pd.DataFrame(rows, columns=["name", "value"])


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def full_answers(found: pd.DataFrame, evidence: Evidence) -> pd.DataFrame:
    """Adds the shares of full answers of the first and the last FINAL_ROUNDS rounds, means over the seeds."""
    runs = {
        name: by_seed(rows, "full_answers")
        for name, rows in evidence.counted_rounds.groupby("configuration", observed=True)
    }
    for column, end in (("full_answers_first", "head"), ("full_answers_last", "tail")):
        shares = {
            name: pd.Series([getattr(run.dropna(), end)(FINAL_ROUNDS).mean() for _, run in curves.items()]).mean()
            for name, curves in runs.items()
        }
        found[column] = pd.Series(shares, dtype="float64")
    return found


def per_unit(found: pd.DataFrame, _: Evidence) -> pd.DataFrame:
    """Adds the bytes moved, and what was spent per unit of the reward; nothing per zero."""
    found["bytes_moved"] = found["bytes_published"] + found["bytes_fetched"]
    for name, column in (("bytes", "bytes_moved"), ("generated", "tokens_generated"), ("trained", "tokens_trained")):
        found[f"{name}_per_reward"] = ratio(found[column], found["reward"])
    return found


def spent_per_row(evidence: Evidence) -> pd.DataFrame:
    """Returns one row per run begun: what it moved and made, per node and round."""
    begun = evidence.runs[evidence.runs["rounds"] > 0]
    return begun[[*SPENT]].div(begun["rows"], axis=0).assign(configuration=begun["configuration"])


def supply(evidence: Evidence) -> pd.DataFrame:
    """Returns expected and measured informative groups by configuration."""
    return supply_by_configuration(evidence.counted_rounds, evidence.record)


def learned_exam(evidence: Evidence) -> pd.DataFrame:
    """Returns the exam of specialists by configuration, moment and whose tables."""
    runs = exam_by_knowledge(evidence.exams)
    return mean_by(runs, ["whose", "configuration", "rounds_done"], "above_constant") if len(runs) else runs


def learned_by_seed(evidence: Evidence) -> pd.DataFrame:
    """Returns what specialists began and ended with, by run and whose tables."""
    return evidence.look.in_order(starts_and_ends(evidence.knowledge), "whose", "configuration", "seed")


def planted(evidence: Evidence) -> pd.DataFrame:
    """Returns how far planted words spread by configuration."""
    return planted_table(evidence.counted, evidence.planted)


def who_taught(evidence: Evidence) -> pd.DataFrame:
    """Returns from whom specialists learned by configuration."""
    some = len(evidence.taught) and (evidence.taught["groups"] > 0).any()
    return taught_by(evidence.taught) if some else pd.DataFrame()


def adaptive_runs(evidence: Evidence) -> pd.DataFrame:
    """Returns the runs of which a rule chose the splits."""
    return evidence.runs.dropna(subset=["mean_adaptive_J"])


def thresholds(evidence: Evidence) -> pd.DataFrame:
    """Returns how soon each run reached each threshold."""
    return rounds_to_threshold(evidence.counted_rounds, thresholds_of(evidence.counted))
