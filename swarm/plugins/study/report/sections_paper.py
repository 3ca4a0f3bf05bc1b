"""A study's percentages over swarms that do not share, beside the paper's +94 %, and what of that is comparable."""

from __future__ import annotations

from typing import Any

import pandas as pd

from swarm.plugins.study.budget import split_of, unequal
from swarm.plugins.study.record import StudyRecord
from swarm.plugins.study.report import paper
from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.sections import Section, is_missing
from swarm.plugins.study.report.sections_headline import comparison_table

TITLE = "Against the paper's +94 %"


def paper_section(evidence: Evidence) -> Section | None:
    """Returns the verdicts, and what is comparable; None where no configuration is to its baseline what the paper's
    best is."""
    record = evidence.record
    verdicts = against_paper(comparison_table(evidence.runs, record), record)
    return Section(TITLE, (*verdicts, *_comparable(record))) if verdicts else None


def against_paper(compared: pd.DataFrame, record: StudyRecord) -> list[str]:
    """Returns a sentence for each pair of which one takes half of its groups from peers, as the paper's best, and one
    none.

    Args:
        compared: of comparison_table.
    """
    return [_verdict(row, record) for row in compared.to_dict("records") if _is_alike(row, record)]


def _is_alike(row: dict[Any, Any], record: StudyRecord) -> bool:
    if not row["baseline"] or is_missing(row["improvement"]):
        return False
    ours, alone = split_of(record, str(row["configuration"])), split_of(record, str(row["baseline"]))
    return ours.local == ours.external > 0 == alone.external


def _verdict(row: dict[Any, Any], record: StudyRecord) -> str:
    name, baseline = str(row["configuration"]), str(row["baseline"])
    budget = split_of(record, name).total
    gain = f"Beside the paper: {name} against {baseline} measured {row['improvement']:+.1f} %"
    said = unequal(record, name, baseline)
    at = f"at unequal budgets: {said}" if said else f"at an equal budget of {budget} groups a round"
    return f"{gain}{_interval(row)} {at}. The paper's {paper.BEST_IN_WORDS} {_place(row)}."


def _interval(row: dict[Any, Any]) -> str:
    if is_missing(row["improvement_low"]):
        return f" (no interval, {row['untested'] or 'no spread'})"
    return f" (95 % interval {row['improvement_low']:+.1f} to {row['improvement_high']:+.1f})"


def _place(row: dict[Any, Any]) -> str:
    theirs = paper.improvement(paper.BEST, paper.ALONE)
    assert theirs is not None
    of = f"({paper.BEST} against {paper.ALONE}, an equal budget of {paper.GROUPS})"
    if is_missing(row["improvement_low"]):
        return f"{of} cannot be held against it"
    low, high = row["improvement_low"], row["improvement_high"]
    side = "above" if theirs > high else "below" if theirs < low else "inside"
    return f"{of} lies {side} that interval"


def _comparable(record: StudyRecord) -> tuple[str, ...]:
    models = _models(record)
    return (
        "Comparable: a percentage over the same swarm without sharing, with half of the groups taken from peers.",
        f"Not comparable: what depends on the size of the swarm ({record.nodes} nodes here, {paper.NODES} there), the "
        f"rounds ({record.rounds}, {paper.ROUNDS}), the model ({', '.join(models) or 'not said'}; {paper.MODEL}), the "
        "difficulty of the questions, which the paper does not say, and the start, of which the effect depends. "
        "The paper gives one sum per configuration without a spread, so how certain its percentage is cannot be told. "
        "At unequal budgets the effects of sharing and of more training are not told apart; a configuration with as "
        "many groups and none of peers would tell them.",
    )


def _models(record: StudyRecord) -> list[str]:
    shared = {**(record.defaults or {}), **record.settings}.get("model", [])
    found = [one.settings.get("model", shared) for one in record.configurations]
    return sorted({name for models in found for name in ([models] if isinstance(models, str) else models)})
