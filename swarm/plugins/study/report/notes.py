"""The first section: what came out in a sentence each, what was declared first, and the limits of the study."""

from __future__ import annotations

from typing import Any

import pandas as pd

from swarm.plugins.study.analysis.significance import FEWEST_SEEDS
from swarm.plugins.study.analysis.splits import moves_by_configuration
from swarm.plugins.study.budget import not_adapting, unequal
from swarm.plugins.study.record import StudyRecord
from swarm.plugins.study.report import paper
from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.progress import FINISHED
from swarm.plugins.study.report.sections import Section, is_missing, p_text
from swarm.plugins.study.report.sections_declared import EXPLORED, NOTHING_DECLARED, declared_table
from swarm.plugins.study.report.sections_factors import factors_table, what_moved
from swarm.plugins.study.report.sections_headline import comparison_table
from swarm.plugins.study.report.sections_paper import against_paper

ALPHA = 0.05


def notes_section(evidence: Evidence) -> Section:
    """Verdicts on what was declared, sentences on what was not, and what limits both."""
    record, compared = evidence.record, comparison_table(evidence.runs, evidence.record)
    declared = [
        f"{said}{_budgets(row, record)}"
        for row in declared_table(evidence).to_dict("records")
        if (said := verdict(row))
    ]
    seen = {(one.configuration, one.baseline) for one in record.declared if one.measure == "cumulative_reward"}
    looked = [
        f"{said}{_budgets(row, record)}"
        for row in compared.to_dict("records")
        if row["baseline"] and (row["configuration"], row["baseline"]) not in seen and (said := observation(row))
    ]
    moved = [said for row in factors_table(evidence).to_dict("records") if (said := what_moved(row))]
    beside = against_paper(compared, record)
    nothing = NOTHING_DECLARED if record.tests else EXPLORED
    text = (*(declared or ([] if record.declared else [nothing])), *looked, *moved, *beside)
    still = not_adapting(record, moves_by_configuration(evidence.splits))
    return Section("In plain words", (*text, *still, *_limits(compared, evidence.runs, record)))


def verdict(row: dict[Any, Any]) -> str:
    """Tells whether a declared comparison found its configuration above the baseline, below it, or neither.

    Args:
        row: of declared_table.

    Returns:
        Nothing where both sides earned nothing: there is nothing to say about two zeros.
    """
    one, other = row["configuration"], f"{row['baseline'] or 0} in {row['measure'].replace('_', ' ')}"
    if is_missing(row["difference"]):
        return f"Declared: {one} against {other} is not tested: one side has no finished run with that measure."
    if row["mean"] == row["baseline_mean"] == 0:
        return ""
    gain = _gain(row)
    if row["difference"] == 0:
        return f"Declared: {one} equals {other}."
    if is_missing(row["p_holm"]):
        return f"Declared: {one} differs from {other}{gain}, untested ({row['untested']}): this may be chance."
    tested = f"{row['test']}, Holm-adjusted {p_text(row['p_holm'])}"
    side = "above" if row["difference"] >= 0 else "below"
    if row["p_holm"] >= ALPHA:
        return f"Declared: {one} is not {side} {other} beyond chance ({tested}; the means differ{gain})."
    return f"Declared: {one} is {side} {other}{gain} ({tested})."


def observation(row: dict[Any, Any]) -> str:
    """Returns a comparison of cumulative rewards that nobody had declared; nothing where both sides earned nothing.

    Args:
        row: of comparison_table.
    """
    name, baseline = row["configuration"], row["baseline"]
    if is_missing(row["difference"]):
        return f"{name} is not compared: its baseline {baseline} has no finished run."
    if row["mean"] == row["difference"] == 0:
        return ""
    where = "at" if row["difference"] == 0 else "above" if row["difference"] > 0 else "below"
    p, adjusted = (row["p"], "") if is_missing(row["p_holm"]) else (row["p_holm"], "Holm-adjusted ")
    tested = f"untested ({row['untested']})" if is_missing(p) else f"{adjusted}{p_text(p)}"
    but = "" if is_missing(p) or p < ALPHA else ", no more than chance may give"
    return f"Looked at afterwards: {name} lay {where} {baseline}{_gain(row)} ({tested}{but})."


def _budgets(row: dict[Any, Any], record: StudyRecord) -> str:
    said = unequal(record, str(row["configuration"]), str(row["baseline"]))
    return f" {said}." if said else ""


def _gain(row: dict[Any, Any]) -> str:
    if is_missing(row["improvement"]):
        return ""
    low, high = row["improvement_low"], row["improvement_high"]
    interval = "" if is_missing(low) else f" ({low:+.1f} to {high:+.1f})"
    return f" by {row['improvement']:+.1f} %{interval}"


def _limits(compared: pd.DataFrame, runs: pd.DataFrame, record: StudyRecord) -> list[str]:
    found = []
    if lacking := int((runs["state"] != FINISHED).sum()):
        found.append(f"{lacking} of {len(runs)} planned runs are not finished and count in no comparison.")
    if gaps := int((runs["rows_missing"] > 0).sum()):
        found.append(f"{gaps} runs lack rows of some node, and so a part of their sum: see the table of runs.")
    if strangers := int((runs["rows_beyond"] > 0).sum()):
        found.append(f"{strangers} runs have rows of more nodes than the study has, which raise their sum.")
    if len(compared) and compared["n"].min() < FEWEST_SEEDS:
        found.append(f"Some configurations have fewer than {FEWEST_SEEDS} seeds: nothing is tested there.")
    order = _order_against_paper(compared)
    if order:
        found.append(order)
    if not paper.same_scale(record) and not set(compared.get("configuration", ())).isdisjoint(paper.CUMULATIVE_REWARD):
        found.append(
            f"The paper trained Qwen2.5-0.5B on {paper.NODES} nodes for {paper.ROUNDS} rounds, and reports one sum per "
            f"configuration without a spread; this study is {record.nodes} nodes, {record.rounds} rounds: a difference "
            "from its percentages is no contradiction of them."
        )
    return found


def _order_against_paper(compared: pd.DataFrame) -> str:
    """Tells whether the configurations that the paper has too rank alike here."""
    if compared.empty:
        return ""
    ours = compared[compared["configuration"].isin(paper.CUMULATIVE_REWARD)]
    if len(ours) < 2 or not ours["mean"].any():
        return ""
    here = ours.sort_values("mean", ascending=False)["configuration"].tolist()
    there = sorted(here, key=lambda name: -paper.CUMULATIVE_REWARD[name])
    ranked = f"By cumulative reward the order here is {' > '.join(here)}"
    return f"{ranked}, as in the paper." if here == there else f"{ranked}; in the paper it is {' > '.join(there)}."
