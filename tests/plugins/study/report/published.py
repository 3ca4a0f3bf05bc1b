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

from swarm.plugins.study.report.sections import frames
from swarm.plugins.study.report.seed_tables import read_tables

DOCS = Path(__file__).parents[4] / "docs"
EFFECT = "{0[improvement]:+.1f} % ({0[improvement_low]:.1f} to {0[improvement_high]:.1f})"
SIGNED = "{0[improvement]:+.1f} % ({0[improvement_low]:+.1f} to {0[improvement_high]:+.1f})"
PAIRED = SIGNED.replace("[", "[declared_")
MEAN = "{0[mean]:.1f} ± {0[sd]:.1f}"
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
def numbers_of(study: str) -> dict[str, dict[str, Any]]:
    """Configuration -> column -> number, over the report's tables.

    What was declared has the prefix `declared_`, and that of a measure other than the reward its name, too.
    """
    evidence = read_tables(DOCS / "study" / study / "tables", None)
    found: dict[str, dict[str, Any]] = {}
    runs = evidence.runs.groupby("configuration", sort=False, observed=True)
    adaptive = runs[["mean_adaptive_J"]].mean().reset_index()
    for table in (adaptive, *_tables(frames(evidence))):
        for row in table.to_dict("records"):
            found.setdefault(str(row["configuration"]), {}).update({str(name): value for name, value in row.items()})
    return found


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
    ):
        if len(rows := found.get(name, pd.DataFrame())):
            yield _prefixed(rows, prefix)
    for name, prefix in (("learned", ""), ("learned_exam", "exam_")):
        rows = found.get(name, pd.DataFrame())
        for whose, own in rows.groupby("whose", observed=True) if len(rows) else ():
            yield _prefixed(own.groupby("configuration", observed=True).last().reset_index(), f"{prefix}{whose}_")
    if len(rows := found.get("by_model", pd.DataFrame())):
        yield rows.assign(configuration=rows["configuration"].astype(str) + " " + rows["model"])


def _prefixed(rows: pd.DataFrame, prefix: str) -> pd.DataFrame:
    """All columns but the configuration's, which tables of one kind share with those of another."""
    return rows.set_index("configuration").add_prefix(prefix).reset_index()


_RULES = ("supply", "gradient", "gradient-scaled", "reward-trend-scaled", "reward-trend", "multi-signal")
_LAST = "{0[others_last]:.3f} ({0[others_last_low]:.3f} to {0[others_last_high]:.3f})"
_DIFFERENCE = "{0[declared_difference]:.3f} ({0[declared_difference_low]:.3f} to {0[declared_difference_high]:.3f})"
_ABOVE = "exam_others_above_constant"
_EXAM = f"{{0[{_ABOVE}]:.3f}} ({{0[{_ABOVE}_low]:.3f}} to {{0[{_ABOVE}_high]:.3f}})"
_POISONED = (
    "{0[pieces_final]:.3f} | {0[shards_final]:.3f} | {0[honest_tagged_final]:.3f} | {0[planters_logprob]:.2f} | "
    "{0[honest_given_tagged]:.3f} | **{0[honest_reward]:.2f}** |"
)
_UNPLANTED = _POISONED.replace(" {0[planters_logprob]:.2f}", "")
_COSTS = (
    "{0[declared_honest_reward_improvement]:+.1f} % ({0[declared_honest_reward_improvement_low]:+.1f} to "
    "{0[declared_honest_reward_improvement_high]:+.1f})"
)
_NEARER = (
    "{0[declared_planters_logprob_difference]:+.2f} ({0[declared_planters_logprob_difference_low]:+.2f} to "
    "{0[declared_planters_logprob_difference_high]:+.2f})"
)
_LEADS = (
    "{0[against_OTHER_improvement]:+.1f} % ({0[against_OTHER_improvement_low]:+.1f} to "
    "{0[against_OTHER_improvement_high]:+.1f}) | {0[against_OTHER_p_holm]:p}"
)
_AGAINST = f" | {SIGNED} | {{0[declared_p_holm]:p}}"
_PRICE = (
    "{0[final_reward]:.3f} | {0[price_tokens_generated]:,.0f} | {0[price_tokens_trained]:,.0f} | "
    "{0[price_bytes_per_reward]:,.0f}"
)
PUBLISHED = (
    *(
        _of(study, f"| `{name}` | {about} | {_POISONED if planters else _UNPLANTED}", name, page="study/poisoners.md")
        for study, name, planters, about in (
            ("poisoners", "honest", 0, "0 | none"),
            ("poisoners", "one", 1, "1 | none"),
            ("poisoners", "two", 2, "2 | none"),
            ("poisoners", "four", 4, "4 | none"),
            ("poisoners", "two-answer", 2, "2 | the answer alone"),
            ("poisoners", "two-floor", 2, "2 | floor of -5"),
            ("poisoners", "four-floor", 4, "4 | floor of -5"),
            ("poisoners-cost", "two-share", 2, "2 | one group of a peer"),
            ("poisoners-cost", "honest-answer", 0, "0 | the answer alone"),
            ("poisoners-cost", "honest-floor", 0, "0 | floor of -5"),
            ("poisoners-without", "six", 0, "none, six nodes | none"),
            ("poisoners-without", "four-left", 0, "none, four nodes | none"),
        )
    ),
    *(
        _of(study, f"{words} {template}", name, page="study/poisoners.md")
        for study, name, words, template in (
            ("poisoners", "two", "two planters", _COSTS),
            ("poisoners", "four", "four", _COSTS),
            ("poisoners", "two-answer", "the answers alone", _COSTS),
            ("poisoners", "two-floor", "a floor of -5", _COSTS),
            ("poisoners", "four-floor", "with four planters", _COSTS),
            ("poisoners-cost", "honest-answer", "learning of the answers alone", _COSTS),
            ("poisoners-cost", "honest-floor", "the floor", _COSTS),
            ("poisoners-without", "two", "two planters, unbounded", _COSTS),
            ("poisoners-without", "two-answer", "with the answers alone", _COSTS),
            ("poisoners-without", "two-floor", "with the floor", _COSTS),
            ("poisoners-without", "four", "unbounded", _COSTS),
            ("poisoners", "two", "two against one", _NEARER),
            ("poisoners", "four", "four against two", _NEARER),
            ("poisoners", "two-answer", "the answers alone", _NEARER),
            ("poisoners", "two-floor", "a floor of -5", _NEARER),
            ("poisoners-cost", "two-share", "one group of a peer", _NEARER),
        )
    ),
    *(
        _of(
            "exploratory/rate-by-split",
            f"| {rate} | {MEAN} | {MEAN.replace('{0', '{1')} | {MEAN.replace('{0', '{2')} | "
            "{0[steep_drops]:.1f}, {1[steep_drops]:.1f}, {2[steep_drops]:.1f} |",
            *(f"{rate}-{j}" for j in ("8/0", "4/4", "2/6")),
            page="study/exploratory.md",
        )
        for rate in ("1e-4", "2e-4", "4e-4", "8e-4")
    ),
    *(
        _of("second-try", f"| {shown} | {MEAN} | {{0[final_reward]:.3f}}", name, page="study/second-try.md")
        for name, shown in (
            *((split, split) for split in ("6/2", "5/3", "4/4", "3/5")),
            *((rule, f"`{rule}`") for rule in ("supply", "supply-measured")),
        )
    ),
    *(
        _of("second-try", _LEADS.replace("OTHER", other), "supply-measured", page="study/second-try.md")
        for other in ("6/2", "5/3", "4/4", "3/5", "supply")
    ),
    *(
        _of(
            "second-try",
            f"| `{rule}` | {{0[J_first]:.1f}} | {{0[J_middle]:.1f}} | {{0[J_last]:.1f}} | {{0[settled]:.0f}} |",
            rule,
            page="study/second-try.md",
        )
        for rule in ("supply", "supply-measured")
    ),
    *(
        _of(
            f"exploratory/{study}",
            f"| {name} | {MEAN} | {SIGNED if compared else ''}{' ' * compared}| {{0[final_reward]:.3f}}",
            name,
            page="study/exploratory.md",
        )
        for study, baselines, others in (
            ("staleness", "4/4", "8/0 4/4-cap 4/4-stale 4/4-stale-cap"),
            ("samplers", "4/4", "informative balanced"),
            ("losses", "4/4", "grpo_sequence no-std dr_grpo batch-std masked no-negatives 4-steps-grpo"),
            ("losses", "", "4-steps-grpo_sequence 4-steps-masked 4-steps-gspo 4-steps-cispo"),
            ("rules", "4/4", "8/0 6/2"),
            ("five-node", "4/0 8/0", "3/1 2/2 1/3 4/4"),
        )
        for compared, names in enumerate((baselines, others))
        for name in names.split()
    ),
    *(
        _of(
            "exploratory/rules",
            f"| {name} | {MEAN} | {SIGNED} | {{0[final_reward]:.3f}} | "
            "{0[J_first]:.1f}, {0[J_middle]:.1f}, {0[J_last]:.1f} | {0[changes]:.2f}",
            name,
            page="study/exploratory.md",
        )
        for name in (
            *(f"{rule}-alpha-{alpha}" for rule in ("gradient", "gradient-scaled") for alpha in ("0.05", "0.1", "0.2")),
            *("gradient-from-2", "gradient-from-6"),
            *(f"{rule}-from-{start}" for rule in ("reward-trend", "multi-signal") for start in (2, 4, 6)),
        )
    ),
    *(
        _of(
            "exploratory/model-size",
            f"| {width} | {parameters} | {MEAN} | {MEAN.replace('{0', '{1')} | {SIGNED.replace('{0', '{1')} | "
            "x{1[format]:.2f} | x{1[content]:.2f} |",
            f"{width}-8/0",
            f"{width}-4/4",
            page="study/exploratory.md",
        )
        for width, parameters in ((32, "67,872"), (64, "234,048"), (128, "861,312"), (192, "1,881,792"))
    ),
    *(
        _of(
            "exploratory/weak-with-strong",
            " | ".join(
                f"{{{place}[node_reward]:.2f}} ({{{place}[node_reward_low]:.2f}} to {{{place}[node_reward_high]:.2f}})"
                for place in range(4)
            ),
            *(f"{where}-{split} {model}" for where in (own, "mixed") for split in ("8/0", "4/4")),
            page="study/exploratory.md",
        )
        for own, model in (("weak", "tiny-2-qwen2-rare-w32"), ("strong", "tiny-2-qwen2-rare"))
    ),
    *(
        _of(
            "exploratory/swarm-size",
            f"| {name} | {{0[supply_expected_start]:.3f}} | {{0[supply_expected]:.2f}} | {{0[supply_measured]:.2f}} | "
            f"{MEAN} | {{0[final_reward]:.3f}} |",
            name,
            page="study/exploratory.md",
        )
        for name in ("8/0", "4/4-of-1", "4/4-of-2", "4/4", "4/4-of-8", "4/4-of-16", "4/4-of-32")
    ),
    *(
        _of(
            "rates",
            f"| {rate} | {MEAN} | "
            + " ".join(
                f"{MEAN} | {_LEADS} |".replace("OTHER", f"{rate}-{other}").replace("{0", f"{{{place}")
                for place, other in ((1, "8/0"), (2, "4/4"))
            ),
            *(f"{rate}-{name}" for name in ("8/0", "4/4", "central-32")),
            page="study/baselines.md",
        )
        for rate in ("2e-4", "4e-4", "8e-4")
    ),
    _of(
        "rates",
        _LEADS.replace("OTHER", "8e-4-8/0").replace(" | ", ", p = "),
        "4e-4-4/4",
        page="study/baselines.md",
    ),
    *(
        _of(
            "best-rates",
            f"| {name} | {MEAN} | {_LEADS} | {{0[final_reward]:.3f}} |".replace("OTHER", "4e-4-4/4"),
            row,
            page="study/baselines.md",
        )
        for name, row in (
            ("8/0 at 4e-4", "4e-4-8/0"),
            ("8/0 at 8e-4", "8e-4-8/0"),
            ("central-32 at 8e-4", "8e-4-central-32"),
        )
    ),
    *(
        _of("baselines", f"| {name} | **{MEAN}**{_AGAINST} | {_PRICE} |", name, page="study/baselines.md")
        for name in ("8/0", "4/0", "central-32", "central-64", "dynamic-4", "average-10", "diloco-10")
    ),
    _of(
        "baselines",
        "central model against 4/4: {0[declared_improvement_low]:+.0f} to {0[declared_improvement_high]:+.0f} %",
        "central-32",
    ),
    _of("baselines", f"| 4/4 | **{MEAN}** | | | {_PRICE} |", "4/4", page="study/baselines.md"),
    *(
        _of(
            "specialists",
            f"| `{name}` | {{0[others_start]:.3f}} | {bold}{_LAST}{bold} | {{0[own_start]:.3f}} | "
            f"{_LAST.replace('others', 'own')} | {{0[others_tagged]:.3f}} |",
            name,
            page="study/specialists.md",
        )
        for name, bold in (("alone", ""), ("together", "**"), ("two-tokenizers", "**"), ("both-halves", ""))
    ),
    *(
        _of("specialists", f"`{name}` {_EXAM}", name, page="study/specialists.md")
        for name in ("alone", "together", "two-tokenizers", "both-halves")
    ),
    _of("specialists", f"`two-tokenizers` {_DIFFERENCE}", "two-tokenizers", page="study/specialists.md"),
    _of("specialists", f"without it {_DIFFERENCE} more", "together", page="study/specialists.md"),
    *(
        _of("specialists-control", template, name, page="study/specialists.md")
        for name, template in (
            ("same-knowledge", _LAST),
            ("together", _LAST),
            ("together", f"difference {_DIFFERENCE}, p {{0[declared_p_holm]:p}}"),
        )
    ),
    _of(
        "specialists",
        f"came to {_LAST.replace('.3f', '.2f')} above the best constant answer on tables that only others had known; "
        "isolated ones stayed below it ({1[others_last]:.2f}).",
        "together",
        "alone",
        page="../README.md",
    ),
    _of("sapo", f"Eight nodes with I/J = 4/4 earn {EFFECT} over 8/0", "4/4", page="../README.md"),
    _of("sapo", f"| 8/0 | {MEAN} |", "8/0"),
    *(
        _of("sapo", f"| {j} | {MEAN} | {EFFECT} | {{0[declared_p_holm]:p}} | {FACTORS} |", j)
        for j in ("6/2", "4/4", "2/6")
    ),
    *(
        _of("sapo", f"| {j} | {MEAN} | {EFFECT} | x{{0[format]:.2f}} | x{{0[content]:.2f}} |", j, page="studies.md")
        for j in ("6/2", "4/4", "2/6")
    ),
    _of(
        "sapo",
        "({0[steep_drops]:.1f} steep drops a run; {1[steep_drops]:.1f} for 6/2 and 4/4, {2[steep_drops]:.1f} for 8/0)",
        "2/6",
        "6/2",
        "8/0",
    ),
    *(
        _of(
            "empty-update",
            f"| {j} | {MEAN} | {EFFECT} | {(MEAN + ' | ' + EFFECT).replace('{0', '{1')} |",
            f"step-{j}",
            f"skip-{j}",
        )
        for j in ("6/2", "4/4", "2/6")
    ),
    _of("empty-update", f"8/0 with the skip against 8/0 with the step: {PAIRED}", "skip-8/0"),
    *(
        _of(
            "starting-reward",
            f"| {MEAN} | {MEAN.replace('{0', '{1')} | {shown.replace('{0', '{1')} | {{1[declared_p_holm]:p}} "
            "| x{1[format]:.2f} | x{1[content]:.2f} |",
            f"{start}-8/0",
            f"{start}-4/4",
        )
        for start, shown in (("3pc", EFFECT), ("10pc", SIGNED), ("30pc", SIGNED))
    ),
    *(
        _of(
            "adaptive",
            f"| `{rule}` | {MEAN} | {SIGNED} | {{0[declared_p_holm]:p}} | x{{0[format]:.2f}} "
            "| {0[mean_adaptive_J]:.1f} |",
            rule,
        )
        for rule in _RULES
    ),
    _of(
        "drawn-first",
        f"| `supply` | {MEAN} | {SIGNED} | {{0[declared_p_holm]:p}} | {{0[mean_adaptive_J]:.1f}} |",
        "supply",
    ),
    _of("frozen", f"| `supply` | {MEAN} | {PAIRED} | {{0[declared_p_holm]:p}} |", "supply"),
    _of("ten-seeds", f"| `supply` | {MEAN} |", "supply"),
    _of(
        "judged",
        f"| {MEAN.replace('{0', '{1')} | {MEAN} | {SIGNED} | {{0[declared_p_holm]:p}} | {FACTORS} |",
        "demo-4/4",
        "demo-8/0",
    ),
)
