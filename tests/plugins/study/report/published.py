"""What the pages of docs say of studies, each line as a template over the study's tables.

    Published(page, study, configurations, template)     {0[mean]:.1f} is the mean of the first of these configurations

A study that is added gets lines here; the numbers come from its committed per-seed tables by the code of
`swarm study report --from-tables`.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from swarm.plugins.study.analysis.effect_size import improvement
from swarm.plugins.study.analysis.significance import paired
from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.seed_tables import read_tables
from swarm.plugins.study.report.write import tables as tables_of

DOCS = Path(__file__).parents[4] / "docs"


def _estimate(column: str, form: str, unit: str = "", ends: str = "") -> str:
    """A number of the first configuration with its interval."""
    ends = ends or form
    return f"{{0[{column}]:{form}}}{unit} ({{0[{column}_low]:{ends}}} to {{0[{column}_high]:{ends}}})"


EFFECT = _estimate("improvement", "+.1f", " %", ".1f")
SIGNED = _estimate("improvement", "+.1f", " %")
PAIRED = _estimate("declared_improvement", "+.1f", " %")
MEAN = "{0[mean]:.1f} ± {0[sd]:.1f}"
HORIZONS = (40, 60, 80, 100)
"""Rounds up to which the reward is summed on the page of a study."""
LONGER = (20, *HORIZONS, 150)
"""The same where runs are longer."""
BUDGETS = (5_000, 12_000, 34_000)
"""Tokens that a node has written when its reward of the ten rounds before is looked at."""
EXAMINED = {
    "": (),
    "_new": ("arc_1d", "calendar_arithmetic", "propositional_logic"),
}
"""Tasks of which the exam is told apart: all; those whose exam texts no training had (benchmarks/seen_questions.py)."""
FACTORS = " | ".join(f"x{_estimate(factor, '.2f')}" for factor in ("format", "content"))


class Published(NamedTuple):
    """A piece of a page, with the numbers left out."""

    page: str
    """Below docs."""
    study: str
    """Its folder in docs/study."""
    configurations: tuple[str, ...]
    template: str
    """For str.format, with one mapping of `numbers_of` per configuration; the format `p` is that of a probability."""


class _Page(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec == "p":
            return "< 0.001" if value < 0.001 else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"
        places = Decimal(1).scaleb(-int(format_spec[-2]))
        halves_up = Decimal(f"{value:.9f}").quantize(places, ROUND_HALF_UP)  # 113.05 is 113.1 to a reader
        return str(super().format_field(halves_up, format_spec))


def _of(study: str, template: str, *configurations: str) -> Published:
    """A piece of no page yet; one text may name several configurations."""
    return Published("", study, tuple(", ".join(configurations).split(", ")), template)


def said(published: Published) -> str:
    """The piece as the tables have it."""
    numbers = [numbers_of(published.study)[name] for name in published.configurations]
    return _Page().vformat(published.template, numbers, {})


def tables_in(study: str) -> Path:
    """The folder of a study's committed tables; those of a replication lie in its own folder itself."""
    folder = DOCS / "study" / study
    return folder if (folder / "study.json").exists() else folder / "tables"


@cache
def evidence_of(tables: Path) -> Evidence:
    """Committed tables, read once."""
    return read_tables(tables, None)


@cache
def frames_of(tables: Path) -> dict[str, pd.DataFrame]:
    """Every table that follows from committed ones, computed once."""
    return tables_of(evidence_of(tables))


@cache
def numbers_of(study: str) -> dict[str, dict[str, Any]]:
    """Configuration -> column -> number, over the report's tables.

    What was declared has the prefix `declared_`, and that of a measure other than the reward its name, too.
    """
    tables = tables_in(study)
    evidence, found = evidence_of(tables), dict[str, dict[str, Any]]()
    runs = evidence.runs.groupby("configuration", sort=False, observed=True)
    adaptive = runs[["mean_adaptive_J"]].mean().reset_index()
    for table in (adaptive, *_tables(frames_of(tables))):
        for row in table.to_dict("records"):
            found.setdefault(str(row["configuration"]), {}).update({str(name): value for name, value in row.items()})
    for name, told in _examined(evidence):
        found[name] |= told
    final = {str(name): rows["final_reward"].tolist() for name, rows in runs}
    rounds = evidence.rounds
    for own in found.values():
        own |= _shares(own, found)
    for name in final:
        own, baseline = found[name], str(found[name].get("baseline"))
        own |= {f"by_{last}": _reward_by(rounds, name, last) for last in LONGER}
        own |= {f"at_{budget}": _reward_at(rounds, name, budget) for budget in BUDGETS}
        if baseline in final:
            lead = improvement(final[name], final[baseline])
            own |= {"final_lead": lead.value, "final_lead_low": lead.low, "final_lead_high": lead.high}
            own |= {f"lead_{last}": _lead(own[f"by_{last}"], _reward_by(rounds, baseline, last)) for last in LONGER}
    return found


def _examined(evidence: Evidence) -> Iterator[tuple[str, dict[str, float]]]:
    """Of an exam at several moments: a configuration and its pass@k, and what it has beyond the declared one."""
    if len(evidence.exams) == 0 or evidence.exams["rounds_done"].nunique() < 3:
        return
    baseline = evidence.record.declared[0].baseline
    for which, tasks in EXAMINED.items():
        rows = evidence.exams[evidence.exams["task"].isin(tasks or evidence.exams["task"])]
        means = rows.groupby(["configuration", "rounds_done", "seed"], observed=True)
        for k in (1, 32):
            by_run = means[f"pass_at_{k}"].mean()
            for (name, rounds), own in by_run.groupby(level=[0, 1], observed=True):
                told = f"{k}_after_{rounds}{which}"
                beyond = paired(own.tolist(), by_run.loc[baseline, rounds].tolist())
                yield (
                    name,
                    {
                        f"pass_at_{told}": own.mean(),
                        f"beyond_{told}": own.mean() - by_run.loc[baseline, rounds].mean(),
                        f"beyond_{told}_low": beyond.low,
                        f"beyond_{told}_high": beyond.high,
                    },
                )


def _shares(own: dict[str, Any], found: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Some columns as percent of those of each other configuration."""
    return {
        f"{column}_share_of_{name}": 100 * own[column] / other[column]
        for name, other in found.items()
        for column in ("mean", "final_reward")
        if column in own and column in other
    }


def _reward_by(rounds: pd.DataFrame, configuration: str, last: int) -> float:
    """The cumulative reward of the rounds before `last`, in the mean over seeds."""
    rows = rounds[(rounds["configuration"] == configuration) & (rounds["round"] < last)]
    return float((rows["mean"] * rows["nodes"]).sum() / rows["seed"].nunique())


def _reward_at(rounds: pd.DataFrame, configuration: str, budget: int) -> float:
    """The mean reward of the last ten rounds before a node has written so many tokens, in the mean over seeds."""
    rows = rounds[(rounds["configuration"] == configuration) & (rounds["tokens_per_node"] <= budget)]
    last = rows.sort_values("round").groupby("seed").tail(10)
    return float(last.groupby("seed")["mean"].mean().mean())


def _lead(own: float, baseline: float) -> float:
    return 100 * (own / baseline - 1)


def _tables(found: dict[str, pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """The tables whose rows are configurations, a later one over those before; where rows are more, with a prefix."""
    plain = ("price", "informative_groups", "final_reward", "oscillation", "factors", "planted", "effect_by_start")
    yield from (found[name] for name in (*plain, "comparison") if name in found)
    declared = found.get("declared", pd.DataFrame(columns=["measure", "baseline"]))
    for measure, rows in declared.groupby("measure"):
        yield _prefixed(rows, f"declared_{measure}_")
        if measure in ("cumulative_reward", "learned_from_others"):
            yield _prefixed(rows, "declared_")
    for baseline, rows in declared.groupby("baseline"):
        yield _prefixed(rows, f"against_{baseline}_")
    if "rounds_to_threshold" in found:
        rows = found["rounds_to_threshold"]
        (_, half, *_) = sorted(rows["threshold"].unique())
        reached = rows[rows["threshold"] == half]
        yield _prefixed(reached.assign(rounds_done=reached["round"] + 1), "half_")
    if "exam" in found:
        examined = found["exam"].groupby("configuration", observed=True)
        yield _prefixed(examined.first().reset_index(), "began_")
        yield _prefixed(examined.last().reset_index(), "ended_")
    for name, prefix in (("learned", ""), ("learned_exam", "exam_")):
        for whose, own in found[name].groupby("whose", observed=True) if name in found else ():
            yield _prefixed(own.groupby("configuration", observed=True).last().reset_index(), f"{prefix}{whose}_")
    if "by_model" in found:
        rows = found["by_model"]
        yield rows.assign(configuration=rows["configuration"] + " " + rows["model"], gain=100 * rows["improvement"])


def _prefixed(rows: pd.DataFrame, prefix: str) -> pd.DataFrame:
    """All columns but the configuration's, which tables of one kind share with those of another."""
    return rows.set_index("configuration").add_prefix(prefix).reset_index()


_LAST = _estimate("others_last", ".3f")
_DIFFERENCE = _estimate("declared_difference", ".3f")
_ABOVE_ALONE = _estimate("against_alone_difference", ".3f")
_EXAM = _estimate("exam_others_above_constant", ".3f")
_POISONED = (
    "{0[pieces_final]:.3f} | {0[honest_tagged_final]:.3f} | {0[honest_given_tagged]:.3f} | {0[honest_reward]:.2f} |"
)
_COSTS = _estimate("declared_honest_reward_improvement", "+.1f", " %")
_NEARER = _estimate("declared_planters_logprob_difference", "+.2f")
_P = "{0[declared_p_holm]:p}"
_EARNS = _estimate("declared_cumulative_reward_improvement", "+.1f", " %")
_P_EARNS = "{0[declared_cumulative_reward_p_holm]:p}"
_LAST_TEN = (
    _estimate("declared_final_reward_improvement", "+.1f", " %", ".1f") + ", {0[declared_final_reward_p_holm]:p}"
)
_REUSE = _estimate("declared_improvement", "+.1f", " %", ".1f")
_PRICE = "{0[final_reward]:.3f} | {0[tokens_generated]:,.0f} | {0[bytes_per_reward]:,.0f}"
_LATE = _estimate("final_lead", "+.1f", " %")
_BALANCED = "declared_reward_given_tagged_balanced"
_EXAMINED = "{0[began_pass_at_1]:.3f} | {0[ended_pass_at_1]:.3f} | PERCENT % | {0[ended_given_answered]:.2f} |"


def _at(place: int, template: str) -> str:
    """The template over the configuration in another place than the first."""
    return template.replace("{0", f"{{{place}")


def _over(other: str) -> str:
    """What was declared against this configuration."""
    return _estimate(f"against_{other}_improvement", "+.1f", " %")


def _leads(other: str) -> str:
    """The same with its p-value."""
    return f"{_over(other)} | {{0[against_{other}_p_holm]:p}}"


def _pass(k: int, rounds: int, which: str = "") -> str:
    """pass@k of both sides, and the difference."""
    told = f"{k}_after_{rounds}{which}"
    return f"{{1[pass_at_{told}]:.3f}} | {{0[pass_at_{told}]:.3f}} | {_estimate(f'beyond_{told}', '+.3f')}"


def _on(page: str, *pieces: Published) -> Iterator[Published]:
    return (piece._replace(page=page) for piece in pieces)


PUBLISHED = (
    # the table of claims and what stands below it
    *_on(
        "study/README.md",
        _of("sapo", f"| {EFFECT} | 8/0: {{1[mean]:.1f}} of 800 | 8x100, {{0[n]:.0f}} |", "4/4, 8/0"),
        _of("sapo", f"| {_LATE} | 8/0: {{1[final_reward]:.3f}} of 1 |", "4/4, 8/0"),
        _of("sapo", f"format {FACTORS.replace(' | ', ', content ')}", "4/4"),
        _of("sapo", "by {0[lead_60]:.0f} % after 60 rounds and by {0[lead_100]:.0f} % after 100", "4/4"),
        *(
            _of(
                "reuse-best",
                f"| {split} {_REUSE} | 4/4: {{1[mean]:.1f}} of 1,200 | 8x150, {{0[n]:.0f}} |",
                *(split, "4/4"),
            )
            for split in ("8/0", "4/0")
        ),
        _of(
            "reuse-decay",
            f"| from 2e-4, 8/0 {_REUSE}; from 4e-4, 8/0 {_at(1, _REUSE)}, Holm's p {_at(1, _P)} | "
            "4/4: {2[mean]:.1f}; {3[mean]:.1f} of 1,200 | 8x150, {0[n]:.0f} |",
            *("8/0-2e-4", "8/0-4e-4", "4/4-2e-4", "4/4-4e-4"),
        ),
        _of("empty-update", f"| {PAIRED} | 8/0 with the step: {{1[mean]:.1f}} of 800", "skip-8/0, step-8/0"),
        _of(
            "best-rates",
            f"| 8/0 {_over('4e-4-4/4')} | 4/4: {{1[mean]:.1f}} of 480 | 8x60, {{1[n]:.0f}}",
            "8e-4-8/0, 4e-4-4/4",
        ),
        *(
            _of(
                "starting-reward",
                f"| {shown} at {start} % | 8/0: {{1[mean]:.1f}} of 480 | 8x60, {{0[n]:.0f}}",
                f"{start}pc-4/4, {start}pc-8/0",
            )
            for start, shown in (("0.6", EFFECT), ("10", SIGNED))
        ),
        _of("starting-reward/again", f"| yes: {EFFECT} in `starting-reward/again.toml`", "0.6pc-4/4"),
        _of(
            "content-start",
            f"| {PAIRED} | 8/0: content {{0[declared_baseline_mean]:.3f}} of 1 | 8x60, {{0[n]:.0f}}".replace(
                "declared", _BALANCED
            ),
            "4/4",
        ),
        _of(
            "judged",
            "| pass@1 {0[ended_pass_at_1]:.3f}; from the other start {2[ended_pass_at_1]:.3f} (no intervals) | 8/0: "
            "{1[ended_pass_at_1]:.3f}; {3[ended_pass_at_1]:.3f} |",
            "rare-4/4, rare-8/0, demo-4/4, demo-8/0",
        ),
        _of(
            "pass-at-k",
            f"pass@1 {_estimate('beyond_1_after_40', '+.3f')} after 40 rounds, "
            f"{_estimate('beyond_1_after_100', '+.3f')} after 100; pass@32 then "
            f"{_estimate('beyond_32_after_100', '+.3f')} | 8/0: {{1[pass_at_1_after_40]:.3f}}, "
            "{1[pass_at_1_after_100]:.3f}; {1[pass_at_32_after_100]:.3f} | 8x100, {0[n]:.0f}",
            "4/4, 8/0",
        ),
        _of("ten-seeds", f"| {PAIRED} | 6/2: {{1[mean]:.1f}} of 800 | 8x100, {{0[n]:.0f}} |", "supply, 6/2"),
        _of(
            "learnability",
            f"| {_EARNS} | a uniform draw, 16/8: {{1[mean]:.1f}} of 300 | 3x100, {{0[n]:.0f}} |",
            "16/8-learnability, 16/8",
        ),
        _of(
            "specialists",
            f"+{_ABOVE_ALONE}, to {{0[others_last]:.3f}} | `alone`: {{1[others_last]:.3f}} | 3x100",
            "together, alone",
        ),
        _of(
            "specialists-cloned",
            f"of `cloned` {_DIFFERENCE} | `together`: {{1[others_last]:.3f}} | 3x100, {{0[n]:.0f}} |",
            "cloned, together",
        ),
        _of(
            "specialists",
            f"+{_DIFFERENCE} without that half of the loss | `both-halves`: {{1[others_last]:.3f}} | 3x100",
            "together, both-halves",
        ),
        *(
            _of("baselines", f"| {SIGNED} | 4/4: {{1[mean]:.1f}} of 480 | 8x60, {{0[n]:.0f}}", name, "4/4")
            for name in ("central-32", "diloco-10")
        ),
        _of(
            "poisoners",
            f"| {_COSTS} | `honest`: {{1[honest_reward]:.2f}} of a node's 80 | 8x80, {{0[n]:.0f}}",
            "two, honest",
        ),
        _of(
            "poisoners",
            f"| {_COSTS}, answer alone | `two`: {{1[honest_reward]:.2f}} of 80 | 8x80, {{0[n]:.0f}}",
            "two-answer, two",
        ),
    ),
    *_on(
        "../README.md",
        _of(
            "specialists",
            f"came to {_estimate('others_last', '.2f')} above the best constant answer on tables that only others had "
            "known; isolated ones stayed below it ({1[others_last]:.2f}).",
            "together, alone",
        ),
        _of("sapo", f"Eight nodes with I/J = 4/4 earn {EFFECT} over 8/0", "4/4"),
        _of("sapo", f"in the last ten is open: {_LATE}.", "4/4"),
    ),
    *_on(
        "study/sharing.md",
        _of("sapo", f"| 8/0 | {MEAN} |", "8/0"),
        *(_of("sapo", f"| {name} | {MEAN} | {EFFECT} | {_P} | {FACTORS} |", name) for name in ("6/2", "4/4", "2/6")),
        _of(
            "empty-update",
            f"6/2 {EFFECT}, 4/4 {_at(1, EFFECT)}, 2/6 {_at(2, EFFECT)}. 8/0 with the skip",
            *("skip-6/2", "skip-4/4", "skip-2/6"),
        ),
        *(
            _of("sapo", f"| {name} | " + " | ".join(f"{{0[by_{n}]:.1f}}" for n in HORIZONS) + " |", name)
            for name in ("8/0", "4/4")
        ),
        _of("sapo", " | ".join(f"+{{0[lead_{n}]:.0f}} %" for n in HORIZONS), "4/4"),
        _of("sapo", f"{_LATE} over 8/0, whose mean reward is {{1[final_reward]:.3f}} of 1", "4/4, 8/0"),
        _of("sapo", f"and 2/6 {_LATE}.", "2/6"),
        _of(
            "sapo",
            "4/4 trains on {0[tokens_trained]:,.0f} tokens and 8/0 on {1[tokens_trained]:,.0f}",
            "4/4, 8/0",
        ),
        _of("empty-update", f"8/0 with the skip against 8/0 with the step: {PAIRED}", "skip-8/0"),
        *(
            _of(
                "exploratory/steps-and-rates",
                f"| {steps[0]} | {{0[mean]:.1f}} | {{1[mean]:.1f}} | {{1[improvement]:+.1f}} % | {{2[mean]:.1f}} |",
                *(f"2e-4-{steps}-{split}" for split in ("8/0", "4/4", "4/0")),
            )
            for steps in ("1-step", "2-steps", "4-steps")
        ),
        _of("sapo", "4/4 ends at {0[final_reward]:.3f} after 100 rounds", "4/4"),
        _of(
            "reuse-best",
            f"| {MEAN} | {_at(1, MEAN)} | {_at(2, MEAN)} | | against 4/4 (95 % interval), Holm's p | | "
            f"{_at(1, _REUSE)}, {_at(1, _P)} | {_at(2, _REUSE)}, {_at(2, _P)} |",
            *("4/4", "8/0", "4/0"),
        ),
        _of(
            "reuse-best",
            "| {0[final_reward]:.3f} | {1[final_reward]:.3f} | {2[final_reward]:.3f} | | against 4/4, Holm's p | | "
            f"{_at(1, _LAST_TEN)} | | | tokens written, all nodes | {{0[tokens_generated]:,.0f}} | "
            "{1[tokens_generated]:,.0f} | {2[tokens_generated]:,.0f} | | tokens trained on | "
            "{0[tokens_trained]:,.0f} | {1[tokens_trained]:,.0f} | {2[tokens_trained]:,.0f} |",
            *("4/4", "8/0", "4/0"),
        ),
        _of(
            "reuse-best",
            f"content, x{_estimate('content', '.2f')}; its format is x{_estimate('format', '.2f')},",
            "8/0",
        ),
        _of("reuse-best", " | ".join(f"{{0[lead_{n}]:+.0f}} %" for n in LONGER), "8/0"),
        *(
            _of("reuse-decay", template, "4/4-2e-4, 8/0-2e-4, 4/4-4e-4, 8/0-4e-4")
            for template in (
                f"of 1,200 | {MEAN} | {_at(1, MEAN)} | {_at(2, MEAN)} | {_at(3, MEAN)} |",
                f"Holm's p | | {_at(1, _REUSE)}, {_at(1, _P)} | | {_at(3, _REUSE)}, {_at(3, _P)} |",
                "of 1 | " + " | ".join(f"{{{place}[final_reward]:.3f}}" for place in range(4)) + " |",
                f"Holm's p | | {_at(1, _LAST_TEN)} | | {_at(3, _LAST_TEN)} |",
                "all nodes | {0[tokens_generated]:,.0f} | {1[tokens_generated]:,.0f} | {2[tokens_generated]:,.0f} | "
                "{3[tokens_generated]:,.0f} |",
            )
        ),
        _of("reuse-decay", " | ".join(f"{{0[lead_{n}]:+.0f}} %" for n in LONGER), "8/0-2e-4"),
        *(
            _of("reuse-best", f"| {name} | " + " | ".join(f"{{0[at_{n}]:.3f}}" for n in BUDGETS) + " |", name)
            for name in ("4/4", "8/0", "4/0")
        ),
        _of(
            "reuse-best",
            "after {0[half_rounds_done]:.0f} rounds and {0[half_tokens_per_node]:,.0f} tokens a node, trained on "
            "{0[half_trained_per_node]:,.0f}; 8/0 after {1[half_rounds_done]:.0f} and {1[half_tokens_per_node]:,.0f}, "
            "trained on {1[half_trained_per_node]:,.0f}; 4/0 after {2[half_rounds_done]:.0f} and "
            "{2[half_tokens_per_node]:,.0f}.",
            *("4/4", "8/0", "4/0"),
        ),
    ),
    *_on(
        "study/starting-reward.md",
        *(
            _of(
                "starting-reward",
                f"| {start} % | {{1[starting_reward]:.3f}} | {MEAN} | {_at(1, MEAN)} | {_at(1, shown)} | "
                f"{_at(1, _P)} | x{{1[format]:.2f}} | x{{1[content]:.2f}} |",
                f"{start}pc-8/0, {start}pc-4/4",
            )
            for start, shown in (("0.6", EFFECT), ("1", EFFECT), ("3", EFFECT), ("10", SIGNED), ("30", SIGNED))
        ),
        _of(
            "starting-reward/again",
            f"seeds 911 to 913 have {_at(1, MEAN)} in 8/0 and {MEAN} in 4/4, {EFFECT}, "
            f"p {_P} by the declared Welch test, "
            "0.002 by pairs; format x{0[format]:.2f}, content x{0[content]:.2f}. 4/4 writes {0[tokens_generated]:,.0f} "
            "tokens for {1[tokens_generated]:,.0f}, and trains on {0[tokens_trained]:,.0f} for "
            "{1[tokens_trained]:,.0f}.",
            "0.6pc-4/4, 0.6pc-8/0",
        ),
    ),
    *_on(
        "study/content-start.md",
        _of(
            "content-start",
            f"4/4 has {{0[declared_mean]:.3f}}, which is {PAIRED[:-1]}, p = {{0[declared_p]:p}}) over the "
            "{0[declared_baseline_mean]:.3f} of 8/0".replace("declared", _BALANCED),
            "4/4",
        ),
    ),
    *_on(
        "study/judged.md",
        *(
            _of("judged", f"| {_at(1, MEAN)} | {MEAN} | {SIGNED} | {_P} | {FACTORS} |", f"{start}-4/4, {start}-8/0")
            for start in ("demo", "rare")
        ),
        *(
            _of("judged", f"| `{model}`, {name[5:]} | {_EXAMINED.replace('PERCENT', percent)}", name)
            for model, name, percent in (
                ("tiny-2-qwen2", "demo-8/0", "90"),
                ("tiny-2-qwen2", "demo-4/4", "91"),
                ("tiny-2-qwen2-rare", "rare-8/0", "40"),
                ("tiny-2-qwen2-rare", "rare-4/4", "72"),
            )
        ),
        *(
            _of("pass-at-k", f"| {rounds} | {_pass(1, rounds)} | {_pass(32, rounds)} |", "4/4, 8/0")
            for rounds in (20, 40, 60, 80, 100)
        ),
        *(
            _of("pass-at-k", f"| {rounds} | {_pass(1, rounds, '_new')} | {_pass(32, rounds, '_new')} |", "4/4, 8/0")
            for rounds in (40, 100)
        ),
        _of("pass-at-k", f"4/4 earns {PAIRED}, p = {{0[declared_p]:p}}, over 8/0's {{1[mean]:.1f}} of 800", "4/4, 8/0"),
        _of("pass-at-k", "In the last ten rounds both earn {0[final_reward]:.2f} of 1", "4/4"),
        _of("pass-at-k", "In the last ten rounds both earn {0[final_reward]:.2f} of 1", "8/0"),
    ),
    *_on(
        "study/adaptive.md",
        *(
            _of("adaptive", f"| `{rule}` | {MEAN} | {SIGNED} | {_P} | {{0[mean_adaptive_J]:.1f}} |", rule)
            for rule in (
                *("supply", "gradient", "gradient-scaled", "reward-trend-scaled", "reward-trend", "multi-signal"),
                "multi-signal-scaled",
            )
        ),
        _of("adaptive", f"| `random`, control | {MEAN} | {SIGNED} | {_P} |", "random"),
        _of("adaptive", f"| fixed 4/4 | {MEAN} | {SIGNED} | {_P} | 4 |", "4/4"),
        _of("adaptive", f"| fixed 6/2 | {MEAN} |", "6/2"),
        *(
            _of("drawn-first", f"`{rule}` over 6/2 | {PAIRED} | {_P} |", rule)
            for rule in ("supply", "multi-signal", "multi-signal-scaled")
        ),
        _of(
            "ten-seeds",
            f"{{1[mean]:.1f}} of 800, paired; five of the seeds are fresh | {PAIRED} | {_P} |",
            "supply, 6/2",
        ),
        *(
            _of("frozen", f"| `{rule}` over J = 3.75 for ever, paired | {PAIRED} | {_P} |", rule)
            for rule in ("supply", "random")
        ),
        _of(
            "second-try",
            f"`supply-measured` over 6/2, {{1[mean]:.1f}} of 400, paired | {_leads('6/2')} |",
            "supply-measured, 6/2",
        ),
        _of(
            "second-try",
            f"earns {_over('5/3')} over 5/3, {_over('4/4')} over 4/4 and {_over('3/5')} over 3/5.",
            "supply-measured",
        ),
        _of("second-try", f"`supply-measured` over `supply`, paired | {_leads('supply')} |", "supply-measured"),
        *(
            _of("learnability", f"| {name} | {MEAN} | | | {{0[others_last]:.3f}} |", name.strip("`"))
            for name in ("16/8", "`late`", "24/0")
        ),
        *(
            _of(
                "learnability",
                f"| `{name}` | {MEAN} | {_EARNS} over {other} | {_P_EARNS} | {{0[others_last]:.3f}} |",
                name,
            )
            for name, other in (("16/8-learnability", "16/8"), ("supply", "16/8"), ("late-learnability", "`late`"))
        ),
        _of("learnability", "moves J to {0[mean_adaptive_J]:.1f} on average", "supply"),
        _of(
            "learnability",
            f"others' tables, +{_DIFFERENCE.replace(' to ', ' to +')}, Holm's p = {_P}".replace("(", "(+"),
            "16/8-learnability",
        ),
    ),
    *_on(
        "study/specialists.md",
        *(
            _of(
                "specialists-cloned",
                f"| `{name}` | {_LAST} | {{0[own_last]:.3f}} | {MEAN} |",
                name,
            )
            for name in ("together", "cloned", "alone-3e-4", "alone-6e-4", "alone-12e-4")
        ),
        _of("specialists-cloned", f"{_DIFFERENCE}, p = {{0[declared_p_holm]:.3f}} by", "cloned"),
        _of("specialists-cloned", f"earns {EFFECT} against `together`", "cloned"),
        *(
            _of(
                "specialists",
                f"| `{name}` | {{0[others_start]:.3f}} | {bold}{_LAST}{bold} | {{0[own_start]:.3f}} | "
                f"{_LAST.replace('others', 'own')} | {{0[others_tagged]:.3f}} |",
                name,
            )
            for name, bold in (("alone", ""), ("together", "**"), ("two-tokenizers", "**"), ("both-halves", ""))
        ),
        _of("specialists", f"`together` is {_ABOVE_ALONE} above `alone`", "together"),
        _of("specialists", f"`two-tokenizers` is {_DIFFERENCE} above `alone`", "two-tokenizers"),
        _of("specialists", f"`together` is {_DIFFERENCE} above `both-halves`", "together"),
        *(_of("specialists", f"`{name}` {_EXAM}", name) for name in ("together", "alone")),
        _of("specialists-control", f"came to {_LAST} on the other four", "same-knowledge"),
        _of("specialists-control", f"came to {_LAST}; difference {_DIFFERENCE}, p {_P}", "together"),
    ),
    *_on(
        "study/baselines.md",
        _of("baselines", f"| 4/4 | {MEAN} | | | {_PRICE} |", "4/4"),
        *(
            _of("baselines", f"| {name} | {MEAN} | {SIGNED} | {_P} | {_PRICE} |", name)
            for name in ("8/0", "4/0", "central-32", "central-64", "dynamic-4", "average-10", "diloco-10")
        ),
        _of(
            "baselines",
            "**{0[mean_share_of_central-32]:.0f} % is of 60 rounds**: {0[mean]:.1f} of {1[mean]:.1f}. In the last "
            "ten rounds the swarm is at {0[final_reward_share_of_central-32]:.0f} % of central-32",
            "4/4, central-32",
        ),
        *(
            _of(
                "rates",
                f"| {rate} | {MEAN} | {_at(1, f'{MEAN} | ' + _leads(f'{rate}-8/0'))} | "
                f"{_at(2, f'{MEAN} | ' + _leads(f'{rate}-4/4'))} |",
                *(f"{rate}-{name}" for name in ("8/0", "4/4", "central-32")),
            )
            for rate in ("2e-4", "4e-4", "8e-4")
        ),
        _of("best-rates", f"| 4/4 at 4e-4 | {MEAN} | | | {{0[final_reward]:.3f}} |", "4e-4-4/4"),
        *(
            _of("best-rates", f"| {name} | {MEAN} | {_leads('4e-4-4/4')} | {{0[final_reward]:.3f}} |", row)
            for name, row in (
                ("8/0 at 4e-4", "4e-4-8/0"),
                ("8/0 at 8e-4", "8e-4-8/0"),
                ("central-32 at 8e-4", "8e-4-central-32"),
            )
        ),
        _of("best-rates", "and {0[mean_share_of_8e-4-central-32]:.0f} % of central-32", "4e-4-4/4"),
    ),
    *_on(
        "study/poisoners.md",
        *(
            _of(study, f"| `{name}` | {_POISONED}", name)
            for study, names in (
                ("poisoners", "honest one two four two-answer two-floor four-floor"),
                ("poisoners-cost", "two-share honest-answer honest-floor"),
                ("poisoners-without", "six four-left"),
            )
            for name in names.split()
        ),
        _of("poisoners", f"against `honest` | two {_COSTS}, four {_at(1, _COSTS)} |", "two, four"),
        _of(
            "poisoners",
            f"against `two` | the answer alone {_COSTS}, the floor {_at(1, _COSTS)} |",
            "two-answer, two-floor",
        ),
        _of("poisoners", f"against `four` | {_COSTS} |", "four-floor"),
        _of(
            "poisoners-cost",
            f"`honest` | the answer alone {_COSTS}, the floor {_at(1, _COSTS)} |",
            "honest-answer, honest-floor",
        ),
        _of(
            "poisoners-without",
            f"two {_COSTS}, the answer alone {_at(1, _COSTS)}, the floor {_at(2, _COSTS)} |",
            "two, two-answer, two-floor",
        ),
        _of("poisoners-without", f"against `four-left` | {_COSTS} |", "four"),
        _of("poisoners-cost", f"changed it by {_NEARER} against `two`", "two-share"),
    ),
    *_on(
        "study/exploratory.md",
        _of("exploratory/losses", f"baselines earn {MEAN} (8/0) and {_at(1, MEAN)} (4/4)", "8/0, 4/4"),
        _of("exploratory/losses", f"from 4/4: {SIGNED} to {_at(1, SIGNED)}", "grpo_sequence, dr_grpo"),
        _of("exploratory/losses", f"Four steps bring {SIGNED} over 4/4 with one", "4-steps-grpo"),
        _of("exploratory/staleness", f"| {SIGNED} against 4/4", "4/4-stale"),
        _of("exploratory/samplers", f"`informative` {SIGNED} against 4/4", "informative"),
        _of("exploratory/rules", f"6/2, which earns {MEAN}", "6/2"),
        _of("exploratory/five-node", f"3/1 earns {MEAN}, 8/0 {_at(1, MEAN)}", "3/1, 8/0"),
        _of(
            "exploratory/model-size",
            "{0[improvement]:+.1f}, {1[improvement]:+.1f}, {2[improvement]:+.1f} and {3[improvement]:+.1f} % over 8/0",
            *(f"{width}-4/4" for width in (32, 64, 128, 192)),
        ),
        _of(
            "exploratory/weak-with-strong",
            "weak nodes +{0[gain]:.0f} %, strong ones +{1[gain]:.0f} % over 8/0; "
            "among their like +{2[gain]:.0f} and +{3[gain]:.0f} %",
            "mixed-4/4 tiny-2-qwen2-rare-w32, mixed-4/4 tiny-2-qwen2-rare",
            "weak-4/4 tiny-2-qwen2-rare-w32, strong-4/4 tiny-2-qwen2-rare",
        ),
        *(
            _of("exploratory/rate-by-split", f"| {rate} | {MEAN} | {_at(1, MEAN)} |", f"{rate}-8/0, {rate}-4/4")
            for rate in ("1e-4", "2e-4", "4e-4", "8e-4")
        ),
        *(
            _of(
                "exploratory/swarm-size",
                "| " + " | ".join(_at(place, cell) for place in range(6)) + " |",
                *("4/4-of-1", "4/4-of-2", "4/4", "4/4-of-8", "4/4-of-16", "4/4-of-32"),
            )
            for cell in (MEAN, "{0[measured]:.2f}")
        ),
    ),
)
