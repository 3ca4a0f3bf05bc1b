"""The section with a verdict on each configuration in a sentence, and the limits of the study."""

from __future__ import annotations

from typing import Any

import pandas as pd

from swarm.study.analysis.significance import FEWEST_SEEDS
from swarm.study.record import StudyRecord
from swarm.study.report import paper
from swarm.study.report.progress import FINISHED
from swarm.study.report.sections import Section, is_missing, p_value

ALPHA = 0.05


def notes_section(compared: pd.DataFrame, progress: pd.DataFrame, record: StudyRecord) -> Section:
    """One sentence per configuration with a baseline, and what limits them.

    Args:
        compared: from comparison_table.
        progress: from progress_table.
        record: the study.
    """
    verdicts = [verdict(row) for row in compared.to_dict("records") if row.get("baseline")]
    return Section("In plain words", (*verdicts, *_limits(compared, progress, record)))


def verdict(row: dict[Any, Any]) -> str:
    """Whether a configuration is above its baseline, below it, or neither.

    Args:
        row: of comparison_table.
    """
    name, baseline = row["configuration"], row["baseline"]
    if is_missing(row["difference"]):
        return f"{name} is not compared: its baseline {baseline} has no finished run."
    gain = "" if is_missing(row["improvement"]) else f" by {row['improvement']:+.1f} %"
    if is_missing(row["p_holm"]):
        return f"{name} differs from {baseline}{gain}, untested ({row['untested']}): this may be chance."
    p = p_value(row["p_holm"])
    tested = f"Holm-adjusted p {p if p.startswith('<') else '= ' + p}"
    if row["p_holm"] >= ALPHA:
        side = "above" if row["difference"] >= 0 else "below"
        return f"{name} is not {side} {baseline} beyond chance ({tested}; the means differ{gain})."
    return f"{name} is {'above' if row['difference'] > 0 else 'below'} {baseline}{gain} ({tested})."


def _limits(compared: pd.DataFrame, progress: pd.DataFrame, record: StudyRecord) -> list[str]:
    found = []
    if lacking := int((progress["state"] != FINISHED).sum()):
        found.append(f"{lacking} of {len(progress)} planned runs are not finished and count in no comparison.")
    if gaps := int((progress["rows_missing"] > 0).sum()):
        found.append(f"{gaps} runs lack rows of some node, and so a part of their sum: see the table of runs.")
    if strangers := int((progress["rows_beyond"] > 0).sum()):
        found.append(f"{strangers} runs have rows of more nodes than the study has, which raise their sum.")
    if len(compared) and compared["n"].min() < FEWEST_SEEDS:
        found.append(f"Some configurations have fewer than {FEWEST_SEEDS} seeds: nothing is tested there.")
    order = _order_against_paper(compared)
    if order:
        found.append(order)
    if not paper.same_scale(record) and not set(compared.get("configuration", ())).isdisjoint(paper.CUMULATIVE_REWARD):
        found.append(
            f"The paper trained Qwen2.5-0.5B on {paper.NODES} nodes for {paper.ROUNDS} rounds, once each; this study "
            f"is {record.nodes} nodes, {record.rounds} rounds: a difference from its percentages is no contradiction "
            "of them."
        )
    return found


def _order_against_paper(compared: pd.DataFrame) -> str:
    """Whether the configurations that the paper has too rank alike here."""
    if compared.empty:
        return ""
    ours = compared[compared["configuration"].isin(paper.CUMULATIVE_REWARD)]
    if len(ours) < 2:
        return ""
    here = ours.sort_values("mean", ascending=False)["configuration"].tolist()
    there = sorted(here, key=lambda name: -paper.CUMULATIVE_REWARD[name])
    ranked = f"By cumulative reward the order here is {' > '.join(here)}"
    return f"{ranked}, as in the paper." if here == there else f"{ranked}; in the paper it is {' > '.join(there)}."
