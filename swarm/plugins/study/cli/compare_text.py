"""A comparison of two experiments or configurations as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from math import isclose
from typing import Any

import pandas as pd

from swarm.harmless import printable
from swarm.plugins.study.analysis.compare import RunsComparison
from swarm.plugins.study.analysis.comparisons import Row
from swarm.plugins.study.analysis.significance import FEWEST_SEEDS
from swarm.plugins.study.measures import MEASURES
from swarm.views.text import table

NO_NUMBER = "-"
EQUAL = 0.01
"""Relative difference of two numbers of groups that is none."""
LEFT_OUT = ("rounds", "nodes")
"""Measures that say what was compared, not what came of it."""


def render_comparison(found: RunsComparison) -> str:
    """Measures, rounds to thresholds and the test, b against a."""
    a, b = printable(found.a), printable(found.b)
    n = found.cumulative["n"]
    return "\n".join(
        (
            f"{b} against {a}, over the first {found.rounds} rounds that all runs have (runs of {b}: {n})",
            "",
            table(("mean over runs", a, b, "difference", "%"), list(_measures(found.totals))),
            "",
            table(("median round of first reaching", a, b), list(_thresholds(found.thresholds))),
            "",
            "\n".join(filter(None, (verdict(found.cumulative), _budgets(found), _sizes(found)))),
        )
    )


def verdict(found: Row) -> str:
    """Returns what the test of the cumulative rewards says, or why there is none."""
    if found["untested"]:
        return f"no p-value: that takes {FEWEST_SEEDS} runs on either side, and some spread"
    size = "" if found["hedges_g"] is None else f", Hedges' g {found['hedges_g']:.2f}"
    p = "< 0.001" if found["p"] < 0.001 else f"= {found['p']:.3f}"
    return f"cumulative reward: Welch t({found['df']:.1f}) = {found['t']:.2f}, p {p}{size}"


def _budgets(found: RunsComparison) -> str:
    """Returns a warning that both trained on unequal numbers of groups; empty where they did not, or nobody knows."""
    a, b = found.groups
    if not (a > 0 and b > 0) or isclose(a, b, rel_tol=EQUAL):
        return ""
    return (
        f"a round of {printable(found.b)} trains on {b:.3g} groups, one of {printable(found.a)} on {a:.3g}: "
        f"{b / a:.3g} times as many. So the difference is not the effect of sharing alone"
    )


def _sizes(found: RunsComparison) -> str:
    """Returns a warning that swarms are of unlike sizes, with what one node of each earns; empty where they are not."""
    sides = found.totals.set_index("measure")[["a", "b"]]
    nodes_a, nodes_b = map(float, sides.loc["nodes"])
    sum_a, sum_b = map(float, sides.loc["cumulative_reward"])
    if nodes_a == nodes_b:
        return ""
    return (
        f"{printable(found.b)} has {nodes_b:g} nodes, {printable(found.a)} {nodes_a:g}: their sums over nodes do not "
        f"compare; one node earns {sum_b / nodes_b:.2f} against {sum_a / nodes_a:.2f}"
    )


def _measures(totals: pd.DataFrame) -> Iterable[tuple[str, ...]]:
    for row in totals.to_dict("records"):
        if row["measure"] in LEFT_OUT or (pd.isna(row["a"]) and pd.isna(row["b"])):
            continue
        digits = MEASURES[row["measure"]].digits
        values = [_number(row[side], digits) for side in ("a", "b", "difference")]
        yield row["measure"].replace("_", " "), *values, _number(row["percent"], 1, sign=True)


def _thresholds(rows: pd.DataFrame) -> Iterable[tuple[str, ...]]:
    for row in rows.to_dict("records"):
        yield f"reward {row['threshold']:.3f}", _number(row["a"], 0), _number(row["b"], 0)


def _number(value: Any, digits: int | None, *, sign: bool = False) -> str:
    if pd.isna(value):
        return NO_NUMBER
    if value == 0:
        return "0"
    places = digits if digits is not None else 0 if abs(value) >= 100 else 2 if abs(value) >= 1 else 3
    return f"{value:{'+' if sign else ''},.{places}f}"
