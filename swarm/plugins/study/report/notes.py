"""Sentences on what came out, one each: what was declared first, then what was not, then the limits of the study."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from swarm.plugins.study.analysis.comparisons import Variance, variance_by_group
from swarm.plugins.study.analysis.curves import FINAL_ROUNDS
from swarm.plugins.study.analysis.significance import FEWEST_SEEDS, Anova
from swarm.plugins.study.analysis.splits import NEAR, moves_by_configuration
from swarm.plugins.study.budget import not_adapting, said_of_sizes, unequal, unequal_budgets
from swarm.plugins.study.record import StudyRecord
from swarm.plugins.study.report import paper
from swarm.plugins.study.report.evidence import FINISHED, Evidence, some_of
from swarm.plugins.study.report.figures import MOST_TASKS
from swarm.plugins.study.report.parts import is_missing, p_text, times

ALPHA = 0.05
PARTS = ("format", "content")
ROUNDING = 0.005
"""An interval that comes as near to 1 as this holds it: two decimals do not tell the two apart."""
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
    record, compared = evidence.record, evidence.compared
    verdicts = [
        f"{said}{_budgets(row, record)}" for row in evidence.declared.to_dict("records") if (said := verdict(row))
    ]
    yield from verdicts
    if not verdicts and not record.declared:
        yield from nothing_declared(evidence)
    seen = {(one.configuration, one.baseline) for one in record.declared if one.measure == "cumulative_reward"}
    for row in compared.to_dict("records"):
        if row["baseline"] and (row["configuration"], row["baseline"]) not in seen and (said := observation(row)):
            yield f"{said}{_budgets(row, record)}"
    yield from what_moved(evidence)
    yield from paper.against_paper(compared, record)
    yield from not_adapting(record, moves_by_configuration(evidence.splits))
    yield from _limits(evidence)


def nothing_declared(evidence: Evidence) -> Iterator[str]:
    """Says that nothing was declared, and what of it follows."""
    yield NOTHING_DECLARED if evidence.record.tests else EXPLORED


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
    yield from paper.order(compared)


def what_moved(evidence: Evidence) -> Iterator[str]:
    """Says of each configuration which factor of its reward moved; nothing where its reward has no ratio, such as of
    nothing to nothing."""
    for row in evidence.factors.to_dict("records"):
        if not any(is_missing(row[part]) for part in ("reward", *PARTS)):
            factors = (
                f"{_factor(row, 'reward')} = format {_factor(row, 'format')} and content {_factor(row, 'content')}"
            )
            yield f"{row['configuration']} against {row['baseline']}: reward {factors}. {_moved(row)}"


def _moved(row: dict[Any, Any]) -> str:
    if any(is_missing(row[f"{part}_low"]) for part in PARTS):
        return "Without intervals nobody can say which of them moved."
    moved = [f"the {part} {_way(row, part)}" for part in PARTS if _way(row, part)]
    still = [f"the {part}" for part in PARTS if not _way(row, part)]
    if not moved:
        return "Neither is shown to have moved."
    others = f"; not shown to have moved: {still[0]}" if still else ""
    return f"What moved (looked at afterwards): {' and '.join(moved)}{others}."


def _factor(row: dict[Any, Any], part: str) -> str:
    low, high = row[f"{part}_low"], row[f"{part}_high"]
    return times(row[part]) + ("" if is_missing(low) else f" ({low:.2f} to {high:.2f})")


def _way(row: dict[Any, Any], part: str) -> str:
    return "up" if row[f"{part}_low"] > 1 + ROUNDING else "down" if row[f"{part}_high"] < 1 - ROUNDING else ""


def of_sizes(evidence: Evidence) -> Iterator[str]:
    """Says which swarms are of another size."""
    yield said_of_sizes(evidence.record)


def of_budgets(evidence: Evidence) -> Iterator[str]:
    """Says which comparisons are not of sharing alone."""
    for said in unequal_budgets(evidence.record):
        yield f"{said}, so that the difference is not the effect of sharing alone."


def of_variance(evidence: Evidence) -> Iterator[str]:
    """Says what the analysis of variance of each group gave."""
    if evidence.record.tests:
        yield from map(_variance, variance_by_group(evidence.runs, evidence.record))


def _variance(found: Variance) -> str:
    over = f"Analysis of variance over {', '.join(found.configurations)}"
    where = f" ({found.group})" if found.group else ""
    test: Anova = found.anova
    if test.f is None or test.p is None:
        return f"{over}{where}: not computed; every configuration needs at least {FEWEST_SEEDS} finished runs."
    classic = f"F({test.df_between}, {test.df_within}) = {test.f:.2f}, {p_text(test.p)}"
    if test.welch_f is None or test.welch_p is None or test.welch_df_within is None:
        return f"{over}{where}: {classic}."
    robust = f"F({test.df_between}, {test.welch_df_within:.1f}) = {test.welch_f:.2f}, {p_text(test.welch_p)}"
    return f"{over}{where}: {classic}; without assuming equal variances (Welch) {robust}."


def of_versions(evidence: Evidence) -> Iterator[str]:
    """Names the runs that other versions computed than those the study was begun with."""
    others = evidence.runs[evidence.runs["other_versions"] != ""]
    if len(others):
        what = "; ".join(others["other_versions"].unique())
        yield f"{len(others)} runs were computed by other versions ({what}): {some_of(others['experiment'].tolist())}."


def what_was_run(evidence: Evidence) -> Iterator[str]:
    """Says which matrix was run, and by which commands."""
    record = evidence.record
    seeds = ", ".join(map(str, record.seeds)) or "none"
    judged = " A judge asked every node a held-out question each round." if record.judged else ""
    yield (
        f"{len(record.configurations)} configurations x {len(record.seeds)} seeds ({seeds}), each a swarm of "
        f"{record.nodes} nodes that trains for {record.rounds} rounds.{judged} A configuration a/b takes a = I local "
        "and b = J external rollout groups per round, unless its settings say otherwise. The unit of all statistics is "
        "the seed, that is, a whole run."
    )
    yield from of_sizes(evidence)
    yield f"The runs were made by: {record.command or 'a command that was not recorded'}"
    yield f"This report was written by: {evidence.command}"


def how_declared(evidence: Evidence) -> Iterator[str]:
    """Says how what was declared is tested."""
    yield (
        "The study's matrix fixed these comparisons, measures and tests before this study began any run of their "
        "configurations. Results of runs that it took over were known. All comparisons stand here. Tests are "
        "two-sided, and the unit is the seed. welch is Welch's t-test of two independent means. paired is "
        "Student's of the differences at equal seeds, zero that of one mean against 0. They are the "
        f"one family of this page ({len(evidence.declared)}): decide by Holm's p, which is adjusted over all "
        "that could be tested. The interval of an improvement is that of the ratio's logarithm."
    )


def how_to_read_the_rest(evidence: Evidence) -> Iterator[str]:
    """Says what the sections behind are."""
    adjusted = "" if evidence.record.declared else ", but for Holm's p of the cumulative reward"
    said = f"p-values there are not adjusted for how many there are{adjusted}; " if evidence.record.tests else "All "
    yield (
        "All that follows was looked at after the runs: it describes these runs, may suggest what to declare for the "
        f"next ones, and proves nothing. {said}intervals hold the true value 95 % of the time one by one, not all at "
        "once."
    )


def how_compared(evidence: Evidence) -> Iterator[str]:
    """Says how cumulative rewards are compared."""
    record = evidence.record
    family = (
        "It is not adjusted: the family of this page is what was declared, above."
        if record.declared
        else "Holm's p is adjusted over all rows of this table: they are the one family of this page."
    )
    tested = (
        f"p is that of Welch's two-sided t-test against the baseline. {family} Hedges' g is the difference in pooled "
        f"standard deviations. With fewer than {FEWEST_SEEDS} seeds on either side there is neither interval nor test: "
        f"n < {FEWEST_SEEDS}."
    )
    yield (
        "Cumulative reward is the sum over nodes and rounds of a node's mean reward per completion on its own "
        "questions, the paper's measure. Only finished runs count, and each counts once: the seed is the unit. sd is "
        "over seeds (n - 1). The interval of a mean is that of Student's t. An improvement is the mean over the "
        "baseline's mean; its interval is of the ratio's logarithm, with Welch's degrees of freedom. "
        f"{tested if record.tests else 'This matrix is exploratory: no p-values.'}"
    )


def beside_the_paper(evidence: Evidence) -> Iterator[str]:
    """Says how far the paper's percentage is from this study's, and what compares."""
    yield from paper.against_paper(evidence.compared, evidence.record)
    yield from paper.comparable(evidence.record)


def how_the_split_is_drawn(evidence: Evidence) -> Iterator[str]:
    """Says what the line and the band of the first figure are."""
    if evidence.metrics is not None:
        yield (
            "The line of the first figure is the mean over nodes and seeds. The band is the range over these "
            "nodes (min to max), not an interval. Both are moving averages over {window} rounds, over the "
            "rounds that all seeds have reached."
        )


def how_it_moved(evidence: Evidence) -> Iterator[str]:
    """Says which rules did not adapt, and what the table of thirds shows."""
    if evidence.splits.empty:
        return
    yield from not_adapting(evidence.record, moves_by_configuration(evidence.splits))
    yield (
        "Thirds are those of a run's rounds, by J before it was rounded, mean over the nodes. A change is a rounded J "
        "that is another than that of the node's round before. J has settled in the first round from which on it stays "
        f"within {NEAR:g} groups of its mean over the last {FINAL_ROUNDS} rounds. The table shows the median "
        "over seeds, and nothing where half of them had not settled before. The share of the peers' groups with an "
        "advantage is what the rules call swarm quality, there as a mean of ten rounds. Quality and J is the "
        "correlation of the two over a run's rounds (Pearson), mean over seeds. Two that only rise together "
        "correlate, too. So beside it stands the correlation of their changes from round to round."
    )


def of_crossings(evidence: Evidence) -> Iterator[str]:
    """Says which crossings are drawn."""
    yield (
        f"Round in which each node learned each task, seed {evidence.crossings['seed'].min()}; at most {MOST_TASKS} "
        "tasks, those with the most crossings. A configuration without marks has no crossing in that seed."
    )
