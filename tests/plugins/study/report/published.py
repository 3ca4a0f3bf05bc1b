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
from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.sections import frames
from swarm.plugins.study.report.seed_tables import read_tables

DOCS = Path(__file__).parents[4] / "docs"
EFFECT = "{0[improvement]:+.1f} % ({0[improvement_low]:.1f} to {0[improvement_high]:.1f})"
SIGNED = "{0[improvement]:+.1f} % ({0[improvement_low]:+.1f} to {0[improvement_high]:+.1f})"
PAIRED = SIGNED.replace("[", "[declared_")
MEAN = "{0[mean]:.1f} ± {0[sd]:.1f}"
HORIZONS = (40, 60, 80, 100)
"""Rounds up to which the reward is summed."""
FACTORS = (
    "x{0[format]:.2f} ({0[format_low]:.2f} to {0[format_high]:.2f}) | "
    "x{0[content]:.2f} ({0[content_low]:.2f} to {0[content_high]:.2f})"
)


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


def _of(study: str, template: str, *configurations: str, page: str = "study/README.md") -> Published:
    return Published(page, study, configurations, template)


def said(published: Published) -> str:
    """The piece as the tables have it."""
    numbers = [numbers_of(published.study)[name] for name in published.configurations]
    return _Page().vformat(published.template, numbers, {})


def fields(published: Published) -> int:
    """How many numbers the piece has."""
    return sum(field is not None for _, field, _, _ in string.Formatter().parse(published.template))


@cache
def evidence_of(tables: Path) -> Evidence:
    """Committed tables, read once."""
    return read_tables(tables, None)


@cache
def frames_of(tables: Path) -> dict[str, pd.DataFrame]:
    """Every table that follows from committed ones, computed once."""
    return frames(evidence_of(tables))


@cache
def numbers_of(study: str) -> dict[str, dict[str, Any]]:
    """Configuration -> column -> number, over the report's tables.

    What was declared has the prefix `declared_`, and that of a measure other than the reward its name, too.
    """
    tables = DOCS / "study" / study / "tables"
    evidence, found = evidence_of(tables), dict[str, dict[str, Any]]()
    runs = evidence.runs.groupby("configuration", sort=False, observed=True)
    adaptive = runs[["mean_adaptive_J"]].mean().reset_index()
    for table in (adaptive, *_tables(frames_of(tables))):
        for row in table.to_dict("records"):
            found.setdefault(str(row["configuration"]), {}).update({str(name): value for name, value in row.items()})
    final = {str(name): rows["final_reward"].tolist() for name, rows in runs}
    rounds = evidence.rounds
    for own in found.values():
        own |= _shares(own, found)
    for name in final:
        own, baseline = found[name], str(found[name].get("baseline"))
        own |= {f"by_{last}": _reward_by(rounds, name, last) for last in HORIZONS}
        if baseline in final:
            lead = improvement(final[name], final[baseline])
            own |= {"final_lead": lead.value, "final_lead_low": lead.low, "final_lead_high": lead.high}
            own |= {f"lead_{last}": _lead(own[f"by_{last}"], _reward_by(rounds, baseline, last)) for last in HORIZONS}
    return found


def _shares(own: dict[str, Any], found: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Some columns as percent of those of each other configuration."""
    columns = ("mean", "final_reward", "price_tokens_generated")
    return {
        f"{column}_share_of_{name}": 100 * own[column] / other[column]
        for name, other in found.items()
        for column in columns
        if column in own and column in other
    }


def _reward_by(rounds: pd.DataFrame, configuration: str, last: int) -> float:
    """The cumulative reward of the rounds before `last`, in the mean over seeds."""
    rows = rounds[(rounds["configuration"] == configuration) & (rounds["round"] < last)]
    return float((rows["mean"] * rows["nodes"]).sum() / rows["seed"].nunique())


def _lead(own: float, baseline: float) -> float:
    return 100 * (own / baseline - 1)


def _tables(found: dict[str, pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """The tables whose rows are configurations; where others have columns of the same names, with a prefix."""
    yield from (found[name] for name in ("final_reward", "oscillation", "effort", "factors", "comparison"))
    declared = found.get("declared", pd.DataFrame(columns=["measure", "baseline"]))
    for measure, rows in declared.groupby("measure"):
        short = measure in ("cumulative_reward", "learned_from_others")
        yield _prefixed(rows, "declared_" if short else f"declared_{measure}_")
    for baseline, rows in declared.groupby("baseline"):
        yield _prefixed(rows, f"against_{baseline}_")
    for name, prefix in (
        ("split_phases", ""),
        ("planted", ""),
        ("price", "price_"),
        ("taught_by", "taught_"),
        ("informative_groups", "supply_"),
        ("effect_by_start", "start_"),
    ):
        if len(rows := found.get(name, pd.DataFrame())):
            yield _prefixed(rows, prefix)
    if len(rows := found.get("exam", pd.DataFrame())):
        examined = rows.groupby("configuration", observed=True)
        yield from (
            _prefixed(own.reset_index(), prefix)
            for own, prefix in ((examined.first(), "began_"), (examined.last(), "ended_"))
        )
    for name, prefix in (("learned", ""), ("learned_exam", "exam_")):
        rows = found.get(name, pd.DataFrame())
        for whose, own in rows.groupby("whose", observed=True) if len(rows) else ():
            yield _prefixed(own.groupby("configuration", observed=True).last().reset_index(), f"{prefix}{whose}_")
    if len(rows := found.get("by_model", pd.DataFrame())):
        models = rows["configuration"].astype(str) + " " + rows["model"]
        yield rows.assign(configuration=models, gain=100 * rows["improvement"])


def _prefixed(rows: pd.DataFrame, prefix: str) -> pd.DataFrame:
    """All columns but the configuration's, which tables of one kind share with those of another."""
    return rows.set_index("configuration").add_prefix(prefix).reset_index()


_RULES = ("supply", "gradient", "gradient-scaled", "reward-trend-scaled", "reward-trend", "multi-signal")
_LAST = "{0[others_last]:.3f} ({0[others_last_low]:.3f} to {0[others_last_high]:.3f})"
_DIFFERENCE = "{0[declared_difference]:.3f} ({0[declared_difference_low]:.3f} to {0[declared_difference_high]:.3f})"
_ABOVE_ALONE = _DIFFERENCE.replace("declared", "against_alone")
_ABOVE = "exam_others_above_constant"
_EXAM = f"{{0[{_ABOVE}]:.3f}} ({{0[{_ABOVE}_low]:.3f}} to {{0[{_ABOVE}_high]:.3f}})"
_POISONED = (
    "{0[pieces_final]:.3f} | {0[honest_tagged_final]:.3f} | {0[honest_given_tagged]:.3f} | {0[honest_reward]:.2f} |"
)
_COSTS = PAIRED.replace("declared_", "declared_honest_reward_")
_NEARER = (
    "{0[declared_planters_logprob_difference]:+.2f} ({0[declared_planters_logprob_difference_low]:+.2f} to "
    "{0[declared_planters_logprob_difference_high]:+.2f})"
)
_OVER = PAIRED.replace("declared_", "against_OTHER_")
_LEADS = _OVER + " | {0[against_OTHER_p_holm]:p}"
_AGAINST = f" | {SIGNED} | {{0[declared_p_holm]:p}}"
_PRICE = "{0[final_reward]:.3f} | {0[price_tokens_generated]:,.0f} | {0[price_bytes_per_reward]:,.0f}"
_LATE = "{0[final_lead]:+.1f} % ({0[final_lead_low]:+.1f} to {0[final_lead_high]:+.1f})"
_BALANCED = "declared_reward_given_tagged_balanced"
_STARTS = (("0.6", EFFECT), ("1", EFFECT), ("3", EFFECT), ("10", SIGNED), ("30", SIGNED))
_EXAMINED = "{0[began_pass_at_1]:.3f} | {0[ended_pass_at_1]:.3f} | PERCENT % | {0[ended_given_answered]:.2f} |"


def _second(template: str, place: int = 1) -> str:
    """The template over the configuration in another place than the first."""
    return template.replace("{0", f"{{{place}")


def _claims() -> Iterator[Published]:
    """The table of claims and what stands below it, in README.md of docs/study."""
    yield _of("sapo", f"| {EFFECT} | 8/0: {{1[mean]:.1f}} of 800 | 8x100, {{0[n]:.0f}} |", "4/4", "8/0")
    yield _of("sapo", f"| {_LATE} | 8/0: {{1[final_reward]:.3f}} of 1 |", "4/4", "8/0")
    yield _of("sapo", f"format {FACTORS.replace(' | ', ', content ')}", "4/4")
    yield _of("sapo", "by {0[lead_60]:.0f} % after 60 rounds and by {0[lead_100]:.0f} % after 100", "4/4")
    template = (
        "| 4/4 with four steps {0[improvement]:+.1f} %, with one {1[improvement]:+.1f} % | 8/0 with as many steps: "
        "{2[mean]:.1f} and {3[mean]:.1f} of 480 | 8x60, {0[n]:.0f} |"
    )
    names = [f"2e-4-{steps}-{split}" for split in ("4/4", "8/0") for steps in ("4-steps", "1-step")]
    yield _of("exploratory/steps-and-rates", template, *names)
    yield _of("empty-update", f"| {PAIRED} | 8/0 with the step: {{1[mean]:.1f}} of 800", "skip-8/0", "step-8/0")
    yield _of(
        "best-rates",
        f"| 8/0 {_OVER.replace('OTHER', '4e-4-4/4')} | 4/4: {{1[mean]:.1f}} of 480 | 8x60, {{1[n]:.0f}}",
        "8e-4-8/0",
        "4e-4-4/4",
    )
    for start, shown in (("0.6", EFFECT), ("10", SIGNED)):
        template = f"| {shown} at {{0[start_starting_reward]:.3f}} | 8/0: {{1[mean]:.1f}} of 480 | 8x60, {{0[n]:.0f}}"
        yield _of("starting-reward", template, f"{start}pc-4/4", f"{start}pc-8/0")
    template = f"| {PAIRED} | 8/0: content {{0[declared_baseline_mean]:.3f}} of 1 | 8x60, {{0[n]:.0f}}"
    yield _of("content-start", template.replace("declared", _BALANCED), "4/4")
    yield _of("judged", "| pass@1 {0[ended_pass_at_1]:.3f} | 8/0: {1[ended_pass_at_1]:.3f} |", "rare-4/4", "rare-8/0")
    yield _of("ten-seeds", f"| {PAIRED} | 6/2: {{1[mean]:.1f}} of 800 | 8x100, {{0[n]:.0f}} |", "supply", "6/2")
    yield _of(
        "specialists", f"+{_ABOVE_ALONE} | `alone`: {{1[others_last]:.3f}} | 3x100, {{0[n]:.0f}}", "together", "alone"
    )
    template = f"+{_DIFFERENCE} without the negative half | `both-halves`: {{1[others_last]:.3f}} | 3x100, {{0[n]:.0f}}"
    yield _of("specialists", template, "together", "both-halves")
    for name in ("central-32", "diloco-10"):
        yield _of("baselines", f"| {SIGNED} | 4/4: {{1[mean]:.1f}} of 480 | 8x60, {{0[n]:.0f}}", name, "4/4")
    honest = "| `honest`: {1[honest_reward]:.2f} of 80 | 8x80, {0[n]:.0f}"
    yield _of("poisoners", f"| {_COSTS} {honest}", "two", "honest")
    yield _of("poisoners", f"| {_COSTS}, answer alone {honest.replace('honest`', 'two`')}", "two-answer", "two")


def _sharing() -> Iterator[Published]:
    page = "study/sharing.md"
    yield _of("sapo", f"| 8/0 | {MEAN} |", "8/0", page=page)
    for split in ("6/2", "4/4", "2/6"):
        row = f"| {split} | {MEAN} | {EFFECT} | {{0[declared_p_holm]:p}} | {FACTORS} |"
        yield _of("sapo", row, split, page=page)
        yield _of("empty-update", f"| {split} | {MEAN} | {EFFECT} |", f"skip-{split}", page=page)
    for split in ("8/0", "4/4"):
        yield _of("sapo", f"| {split} | " + " | ".join(f"{{0[by_{n}]:.1f}}" for n in HORIZONS) + " |", split, page=page)
    yield _of("sapo", " | ".join(f"+{{0[lead_{n}]:.0f}} %" for n in HORIZONS), "4/4", page=page)
    yield _of("sapo", f"{_LATE} over 8/0, whose mean reward is {{1[final_reward]:.3f}} of 1", "4/4", "8/0", page=page)
    yield _of("empty-update", f"| 8/0 | {MEAN} | |", "skip-8/0", page=page)
    yield _of("empty-update", f"8/0 with the skip against 8/0 with the step: {PAIRED}", "skip-8/0", page=page)
    for rate in ("2e-4", "4e-4"):
        for steps in ("1-step", "2-steps", "4-steps"):
            template = "{0[mean]:.1f} | {1[mean]:.1f} | {1[improvement]:+.1f} % | {2[mean]:.1f} |"
            names = [f"{rate}-{steps}-{split}" for split in ("8/0", "4/4", "4/0")]
            yield _of("exploratory/steps-and-rates", f"| {rate}, {steps[0]} | {template}", *names, page=page)
    drops = (
        "({0[steep_drops]:.1f} steep drops a run; {1[steep_drops]:.1f} for 6/2 and 4/4, {2[steep_drops]:.1f} for 8/0)"
    )
    yield _of("sapo", drops, "2/6", "6/2", "8/0", page=page)


def _starts() -> Iterator[Published]:
    for start, shown in _STARTS:
        template = (
            f"| {start} % | {{1[start_starting_reward]:.3f}} | {MEAN} | {_second(MEAN)} | {_second(shown)} | "
            "{1[declared_p_holm]:p} | x{1[format]:.2f} | x{1[content]:.2f} |"
        )
        yield _of("starting-reward", template, f"{start}pc-8/0", f"{start}pc-4/4", page="study/starting-reward.md")
    template = f"4/4 has {{0[declared_mean]:.3f}}, which is {PAIRED[:-1]}, p = {{0[declared_p]:p}}) over the "
    template = (template + "{0[declared_baseline_mean]:.3f} of 8/0").replace("declared", _BALANCED)
    yield _of("content-start", template, "4/4", page="study/content-start.md")
    for start in ("demo", "rare"):
        template = f"| {_second(MEAN)} | {MEAN} | {SIGNED} | {{0[declared_p_holm]:p}} | {FACTORS} |"
        yield _of("judged", template, f"{start}-4/4", f"{start}-8/0", page="study/judged.md")
    for name, percent in (("demo-8/0", 90), ("demo-4/4", 91), ("rare-8/0", 40), ("rare-4/4", 72)):
        model = "tiny-2-qwen2" + "-rare" * name.startswith("rare")
        template = f"| `{model}`, {name[5:]} | {_EXAMINED.replace('PERCENT', str(percent))}"
        yield _of("judged", template, name, page="study/judged.md")


def _adaptive() -> Iterator[Published]:
    page = "study/adaptive.md"
    for rule in (*_RULES, "multi-signal-scaled"):
        template = f"| `{rule}` | {MEAN} | {SIGNED} | {{0[declared_p_holm]:p}} | {{0[mean_adaptive_J]:.1f}} |"
        yield _of("adaptive", template, rule, page=page)
    yield _of("adaptive", f"| `random`, control | {MEAN} | {SIGNED} | {{0[declared_p_holm]:p}} |", "random", page=page)
    yield _of("adaptive", f"| fixed 4/4 | {MEAN} | {SIGNED} | {{0[declared_p_holm]:p}} | 4 |", "4/4", page=page)
    yield _of("adaptive", f"| fixed 6/2 | {MEAN} |", "6/2", page=page)
    yield _of("drawn-first", f"`supply` over 6/2 | {PAIRED} | {{0[declared_p_holm]:p}} |", "supply", page=page)
    template = f"`supply` over 6/2, {{1[mean]:.1f}} of 800, paired | {PAIRED} | {{0[declared_p_holm]:p}} |"
    yield _of("ten-seeds", template, "supply", "6/2", page=page)
    for rule in ("supply", "random"):
        template = f"| `{rule}` over J = 3.75 for ever, paired | {PAIRED} | {{0[declared_p_holm]:p}} |"
        yield _of("frozen", template, rule, page=page)
    template = f"`supply-measured` over 6/2, {{1[mean]:.1f}} of 400, paired | {_LEADS.replace('OTHER', '6/2')} |"
    yield _of("second-try", template, "supply-measured", "6/2", page=page)
    template = f"`supply-measured` over `supply`, paired | {_LEADS.replace('OTHER', 'supply')} |"
    yield _of("second-try", template, "supply-measured", page=page)


def _specialists() -> Iterator[Published]:
    page = "study/specialists.md"
    for name, bold in (("alone", ""), ("together", "**"), ("two-tokenizers", "**"), ("both-halves", "")):
        template = (
            f"| `{name}` | {{0[others_start]:.3f}} | {bold}{_LAST}{bold} | {{0[own_start]:.3f}} | "
            f"{_LAST.replace('others', 'own')} | {{0[others_tagged]:.3f}} |"
        )
        yield _of("specialists", template, name, page=page)
    yield _of("specialists", f"`together` is {_ABOVE_ALONE} above `alone`", "together", page=page)
    yield _of("specialists", f"`two-tokenizers` is {_DIFFERENCE} above `alone`", "two-tokenizers", page=page)
    yield _of("specialists", f"`together` is {_DIFFERENCE} above `both-halves`", "together", page=page)
    yield from (_of("specialists", f"`{name}` {_EXAM}", name, page=page) for name in ("together", "alone"))
    yield _of("specialists-control", f"came to {_LAST} on the other four", "same-knowledge", page=page)
    template = f"came to {_LAST}; difference {_DIFFERENCE}, p {{0[declared_p_holm]:p}}"
    yield _of("specialists-control", template, "together", page=page)
    yield _of(
        "specialists",
        f"came to {_LAST.replace('.3f', '.2f')} above the best constant answer on tables that only others had known; "
        "isolated ones stayed below it ({1[others_last]:.2f}).",
        "together",
        "alone",
        page="../README.md",
    )
    yield _of("sapo", f"Eight nodes with I/J = 4/4 earn {EFFECT} over 8/0", "4/4", page="../README.md")


def _baselines() -> Iterator[Published]:
    page = "study/baselines.md"
    yield _of("baselines", f"| 4/4 | {MEAN} | | | {_PRICE} |", "4/4", page=page)
    for name in ("8/0", "4/0", "central-32", "central-64", "dynamic-4", "average-10", "diloco-10"):
        yield _of("baselines", f"| {name} | {MEAN}{_AGAINST} | {_PRICE} |", name, page=page)
    template = (
        "**{0[mean_share_of_central-32]:.0f} % is of 60 rounds**: {0[mean]:.1f} of {1[mean]:.1f}. In the last "
        "ten rounds the swarm is at {0[final_reward_share_of_central-32]:.0f} % of central-32"
    )
    yield _of("baselines", template, "4/4", "central-32", page=page)
    for rate in ("2e-4", "4e-4", "8e-4"):
        leads = [
            _second(f"{MEAN} | {_LEADS} |", place).replace("OTHER", f"{rate}-{other}")
            for place, other in ((1, "8/0"), (2, "4/4"))
        ]
        names = [f"{rate}-{name}" for name in ("8/0", "4/4", "central-32")]
        yield _of("rates", f"| {rate} | {MEAN} | {' '.join(leads)}", *names, page=page)
    yield _of("best-rates", f"| 4/4 at 4e-4 | {MEAN} | | | {{0[final_reward]:.3f}} |", "4e-4-4/4", page=page)
    for name, row in (
        ("8/0 at 4e-4", "4e-4-8/0"),
        ("8/0 at 8e-4", "8e-4-8/0"),
        ("central-32 at 8e-4", "8e-4-central-32"),
    ):
        template = f"| {name} | {MEAN} | {_LEADS} | {{0[final_reward]:.3f}} |".replace("OTHER", "4e-4-4/4")
        yield _of("best-rates", template, row, page=page)
    template = "and {0[mean_share_of_8e-4-central-32]:.0f} % of central-32"
    yield _of("best-rates", template, "4e-4-4/4", page=page)


def _poisoners() -> Iterator[Published]:
    page = "study/poisoners.md"
    for study, names in (
        ("poisoners", "honest one two four two-answer two-floor four-floor"),
        ("poisoners-cost", "two-share honest-answer honest-floor"),
        ("poisoners-without", "six four-left"),
    ):
        yield from (_of(study, f"| `{name}` | {_POISONED}", name, page=page) for name in names.split())
    for study, names, template in (
        ("poisoners", "two four", "against `honest` | two FIRST, four SECOND |"),
        ("poisoners", "two-answer two-floor", "against `two` | the answer alone FIRST, the floor SECOND |"),
        ("poisoners", "four-floor", "against `four` | FIRST |"),
        ("poisoners-cost", "honest-answer honest-floor", "`honest` | the answer alone FIRST, the floor SECOND |"),
        ("poisoners-without", "two two-answer two-floor", "two FIRST, the answer alone SECOND, the floor THIRD |"),
        ("poisoners-without", "four", "against `four-left` | FIRST |"),
    ):
        for place, word in enumerate(("FIRST", "SECOND", "THIRD")):
            template = template.replace(word, _second(_COSTS, place))
        yield _of(study, template, *names.split(), page=page)
    yield _of("poisoners-cost", f"changed it by {_NEARER} against `two`", "two-share", page=page)


def _looked_at() -> Iterator[Published]:
    page = "study/exploratory.md"
    losses, five = "exploratory/losses", "exploratory/five-node"
    template = f"baselines earn {MEAN} (8/0) and {_second(MEAN)} (4/4)"
    yield _of(losses, template, "8/0", "4/4", page=page)
    yield _of(losses, f"from 4/4: {SIGNED} to {_second(SIGNED)}", "grpo_sequence", "dr_grpo", page=page)
    yield _of(losses, f"Four steps bring {SIGNED} over 4/4 with one", "4-steps-grpo", page=page)
    yield _of("exploratory/staleness", f"| {SIGNED} against 4/4", "4/4-stale", page=page)
    yield _of("exploratory/samplers", f"`informative` {SIGNED} against 4/4", "informative", page=page)
    yield _of("exploratory/rules", f"6/2, which earns {MEAN}", "6/2", page=page)
    yield _of(five, f"3/1 earns {MEAN}, 8/0 {_second(MEAN)}", "3/1", "8/0", page=page)
    gains = ", ".join(f"{{{place}[improvement]:+.1f}}" for place in range(3)) + " and {3[improvement]:+.1f} % over 8/0"
    yield _of("exploratory/model-size", gains, *(f"{width}-4/4" for width in (32, 64, 128, 192)), page=page)
    weak, strong = "tiny-2-qwen2-rare-w32", "tiny-2-qwen2-rare"
    template = (
        "weak nodes +{0[gain]:.0f} %, strong ones +{1[gain]:.0f} % over 8/0; "
        "among their like +{2[gain]:.0f} and +{3[gain]:.0f} %"
    )
    names = (f"mixed-4/4 {weak}", f"mixed-4/4 {strong}", f"weak-4/4 {weak}", f"strong-4/4 {strong}")
    yield _of("exploratory/weak-with-strong", template, *names, page=page)
    for rate in ("1e-4", "2e-4", "4e-4", "8e-4"):
        template = f"| {rate} | {MEAN} | {_second(MEAN)} |"
        yield _of("exploratory/rate-by-split", template, f"{rate}-8/0", f"{rate}-4/4", page=page)
    sizes = [f"4/4-of-{nodes}".replace("-of-4", "") for nodes in (1, 2, 4, 8, 16, 32)]
    for cell in (MEAN, "{0[supply_measured]:.2f}"):
        template = "| " + " | ".join(_second(cell, place) for place in range(6)) + " |"
        yield _of("exploratory/swarm-size", template, *sizes, page=page)


PUBLISHED = (
    *_claims(),
    *_sharing(),
    *_starts(),
    *_adaptive(),
    *_specialists(),
    *_baselines(),
    *_poisoners(),
    *_looked_at(),
)
