"""Sentences on what came out: what was declared first, then what was not, then the limits of the study."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd

from swarm.plugins.study.analysis.significance import FEWEST_SEEDS
from swarm.plugins.study.analysis.splits import moves_by_configuration
from swarm.plugins.study.budget import not_adapting, said_of_sizes, unequal
from swarm.plugins.study.record import StudyRecord
from swarm.plugins.study.report.evidence import FINISHED, Evidence
from swarm.plugins.study.report.parts import is_missing

Row = dict[Any, Any]
"""A row of a table, column -> value."""
ALPHA = 0.05
ROUNDING = 0.005
"""An interval that comes as near to 1 as this holds it: two decimals do not tell the two apart."""
MOST_NAMED = 8
"""Runs that are named in a sentence; the table has them all."""
NOTHING_DECLARED = (
    "Nothing was declared before the runs; a matrix does it with [[comparisons]]. So no test on this page proves "
    "anything: all of it was looked at afterwards."
)
EXPLORED = (
    "This matrix is exploratory: no p-values. Nothing was declared before the runs, so nothing on this page "
    "proves anything. Declare what looks interesting, and run it on fresh seeds."
)


def in_plain_words(evidence: Evidence) -> Iterator[str]:
    """Verdicts on what was declared, sentences on what was not, and what limits both."""
    record = evidence.record
    for row in evidence.declared.to_dict("records"):
        if said := verdict(row):
            yield said + _budgets(row, record)
    if not record.declared:
        yield NOTHING_DECLARED if record.tests else EXPLORED
    seen = {(one.configuration, one.baseline) for one in record.declared if one.measure == "cumulative_reward"}
    for row in evidence.compared.to_dict("records"):
        if row["baseline"] and (row["configuration"], row["baseline"]) not in seen and (said := observation(row)):
            yield said + _budgets(row, record)
    yield from what_moved(evidence)
    yield from not_adapting(record, moves_by_configuration(evidence.splits))
    yield from _limits(evidence)


# ── verdicts ────────────────────────────────────────────────────────────────────────────────────────────────────────
def verdict(row: Row) -> str:
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


def observation(row: Row) -> str:
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


def _gain(row: Row) -> str:
    if is_missing(row["improvement"]):
        return ""
    return f" by {row['improvement']:+.1f} %" + _interval(row, "improvement", "+.1f")


def _interval(row: Row, of: str, form: str) -> str:
    low, high = row[f"{of}_low"], row[f"{of}_high"]
    return "" if is_missing(low) else f" ({low:{form}} to {high:{form}})"


def p_text(p: float) -> str:
    """Returns a probability in a sentence, without a false precision: `p = 0.012`, `p < 0.001`."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def _budgets(row: Row, record: StudyRecord) -> str:
    said = unequal(record, str(row["configuration"]), str(row["baseline"]))
    return f" {said}." if said else ""


# ── format and content ──────────────────────────────────────────────────────────────────────────────────────────────
def what_moved(evidence: Evidence) -> Iterator[str]:
    """Says of each configuration which factor of its reward moved; nothing where its reward has no ratio, such as of
    nothing to nothing."""
    for row in evidence.factors.to_dict("records"):
        if not any(is_missing(row[part]) for part in ("reward", "format", "content")):
            reward, form, content = (
                f"x{row[part]:.2f}{_interval(row, part, '.2f')}" for part in ("reward", "format", "content")
            )
            yield (
                f"{row['configuration']} against {row['baseline']}: reward {reward} = format {form} and content "
                f"{content}. {_moved(row)}"
            )


def _moved(row: Row) -> str:
    ways = {part: _way(row[f"{part}_low"], row[f"{part}_high"]) for part in ("format", "content")}
    if "?" in ways.values():
        return "Without intervals nobody can say which of them moved."
    moved = [f"the {part} {way}" for part, way in ways.items() if way]
    if not moved:
        return "Neither is shown to have moved."
    still = [f"; not shown to have moved: the {part}" for part, way in ways.items() if not way]
    return f"What moved (looked at afterwards): {' and '.join(moved)}{''.join(still)}."


def _way(low: float, high: float) -> str:
    if is_missing(low):
        return "?"
    return "up" if low > 1 + ROUNDING else "down" if high < 1 - ROUNDING else ""


# ── what was run, and its limits ────────────────────────────────────────────────────────────────────────────────────
def what_was_run(evidence: Evidence) -> Iterator[str]:
    """Says which matrix was run, and by which commands."""
    record = evidence.record
    judged = " A judge asked every node a held-out question each round." if record.judged else ""
    yield (
        f"{len(record.configurations)} configurations x {len(record.seeds)} seeds "
        f"({', '.join(map(str, record.seeds)) or 'none'}), each a swarm of {record.nodes} nodes that trains for "
        f"{record.rounds} rounds.{judged} A configuration a/b takes a = I local and b = J external rollout groups per "
        "round, unless its settings say otherwise. The unit of all statistics is the seed, that is, a whole run."
    )
    yield said_of_sizes(record)
    yield f"The runs were made by: {record.command or 'a command that was not recorded'}"
    yield f"This report was written by: {evidence.command}"


def of_versions(evidence: Evidence) -> Iterator[str]:
    """Lists settings and versions, and names the runs that other versions computed."""
    record = evidence.record
    yield f"Settings that all runs share: {listed(record.settings) or 'the defaults'}."
    yield f"Versions that the study was begun with: {listed(record.versions) or 'not recorded'}."
    others = evidence.runs[evidence.runs["other_versions"] != ""]
    if len(others):
        what = "; ".join(others["other_versions"].unique())
        yield f"{len(others)} runs were computed by other versions ({what}): {_some_of(others['experiment'].tolist())}."


def listed(values: dict[str, Any]) -> str:
    """Returns names and values as `a = 1, b = text`."""
    told = {
        name: value if isinstance(value, str) else json.dumps(value, sort_keys=True) for name, value in values.items()
    }
    return ", ".join(f"{name} = {value}" for name, value in told.items())


def missing_text(runs: pd.DataFrame) -> str:
    """Returns in a sentence what an unfinished study lacks; empty for a whole one."""
    lacking = runs[runs["state"] != FINISHED]
    if lacking.empty:
        return ""
    named = [f"{row.configuration} seed {row.seed} ({row.rounds} of {row.planned})" for row in lacking.itertuples()]
    return (
        f"This study is not finished: {len(runs) - len(lacking)} of {len(runs)} runs are. Rounds done of the others: "
        f"{_some_of(named)}. Curves over rounds, tokens and time are of all runs, all else of finished ones (of all, "
        "while none is finished)."
    )


def _some_of(named: list[str]) -> str:
    """Returns the first of many names."""
    return ", ".join(named[:MOST_NAMED]) + (f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else "")


def _limits(evidence: Evidence) -> Iterator[str]:
    compared, runs = evidence.compared, evidence.runs
    if lacking := int((runs["state"] != FINISHED).sum()):
        yield f"{lacking} of {len(runs)} planned runs are not finished and count in no comparison."
    if gaps := int((runs["rows_missing"] > 0).sum()):
        yield f"{gaps} runs lack rows of some node, and so a part of their sum: see the table of runs."
    if strangers := int((runs["rows_beyond"] > 0).sum()):
        yield f"{strangers} runs have rows of more nodes than the study has, which raise their sum."
    if len(compared) and compared["n"].min() < FEWEST_SEEDS:
        yield f"Some configurations have fewer than {FEWEST_SEEDS} seeds: nothing is tested there."
