"""Numbers of studies that the pages of docs say; published.txt has the pieces of the pages, with the numbers left out.

A study that is added gets lines there; the numbers come from its committed per-seed tables by the code of
`swarm study report --from-tables`.
"""

from __future__ import annotations

import re
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
HORIZONS = (20, 40, 60, 80, 100, 150)
"""Rounds up to which the reward is summed on the page of a study."""
BUDGETS = (5_000, 12_000, 34_000)
"""Tokens that a node has written when its reward of the ten rounds before is looked at."""
EXAMINED = {
    "": (),
    "_new": ("arc_1d", "calendar_arithmetic", "propositional_logic"),
}
"""Tasks of which the exam is told apart: all; those whose exam texts no training had (benchmarks/seen_questions.py)."""
_NUMBER = re.compile(r"{(?:(\d) )?(\S+) ([+,.\w]+)( %)?(?: to (\S+))?}")


class Published(NamedTuple):
    """A piece of a page, with the numbers left out."""

    page: str
    """Below docs."""
    study: str
    """Its folder in docs/study."""
    configurations: tuple[str, ...]
    template: str


def _read() -> Iterator[Published]:
    for page in Path(__file__).with_name("published.txt").read_text("utf-8").split("\n# ")[1:]:
        name, *lines = page.strip().splitlines()
        for study, named, template in (line.split(": ", 2) for line in lines):
            for configurations in named.split("; "):
                yield Published(name, study, tuple(configurations.split(", ")), template)


PUBLISHED = tuple(_read())


def said(published: Published) -> str:
    """The piece as the tables have it."""
    names = published.configurations
    numbers = [numbers_of(published.study)[name] for name in names]

    def shown(found: re.Match[str]) -> str:
        own, column, form, unit, ends = numbers[int(found[1] or 0)], *found.groups("")[1:]
        interval = [_number(own[f"{column}_{end}"], ends) for end in ("low", "high") if ends]
        return _number(own[column], form) + unit + (f" ({' to '.join(interval)})" if ends else "")

    return _NUMBER.sub(shown, published.template.replace("{name}", names[0]))


def _number(value: float, form: str) -> str:
    if form == "p":
        return "< 0.001" if value < 0.001 else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"
    places = Decimal(1).scaleb(-int(form[-2]))
    return f"{Decimal(f'{value:.9f}').quantize(places, ROUND_HALF_UP):{form}}"  # 113.05 is 113.1 to a reader


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
        own |= {f"by_{last}": _reward_by(rounds, name, last) for last in HORIZONS}
        own |= {f"at_{budget}": _reward_at(rounds, name, budget) for budget in BUDGETS}
        if baseline in final:
            lead = improvement(final[name], final[baseline])
            own |= {"final_lead": lead.value, "final_lead_low": lead.low, "final_lead_high": lead.high}
            own |= {f"lead_{last}": _lead(own[f"by_{last}"], _reward_by(rounds, baseline, last)) for last in HORIZONS}
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
