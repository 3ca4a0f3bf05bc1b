"""The section on specialists: what they knew, what they learned of what only others knew, and from whom."""

from __future__ import annotations

from typing import Any

import pandas as pd

from swarm.plugins.study.analysis.curves import by_seed, common_rounds, smooth
from swarm.plugins.study.analysis.effect_size import mean_effect
from swarm.plugins.study.analysis.learned import (
    BEST_CONSTANT,
    FINAL_ROUNDS,
    OTHERS,
    OWN,
    by_source,
    exam_by_knowledge,
    starts_and_ends,
)
from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.figure_style import FigureStyle, draw_mean, legend_below, new_figure
from swarm.plugins.study.report.sections import (
    CONFIGURATION,
    INTERVAL,
    SEED,
    Column,
    Picture,
    Section,
    Table,
    percent,
    signed,
    signed_percent,
    whole,
)


def learned_section(evidence: Evidence) -> Section | None:
    """Own tables and others', if there were specialists."""
    knowledge, look = evidence.knowledge, evidence.look
    if knowledge.empty:
        return None
    runs = look.in_order(starts_and_ends(knowledge), "whose", "configuration", "seed")
    parts: list[Table | Picture] = [
        Table("learned", "By configuration, means over seeds.", over_seeds(runs, look), _LEARNED),
        Picture(
            "learned_curves",
            "Accuracy above the best constant answer, on tables of others (left) and own ones (right).",
            curves(knowledge, look, evidence.window),
        ),
        *_exam(evidence),
        *_sources(evidence),
        Table("learned_by_seed", "By run.", runs, _BY_SEED),
    ]
    return Section(
        "Learned from others",
        (
            "A specialist knows some tables when it starts (own) and none of the others', which other nodes of its "
            "swarm know. Accuracy is the sum of rewards over the sum of closed answers, so that the format has no part "
            f"in it; shown is what it lies above the {BEST_CONSTANT:.3f} that the best constant answer to a table "
            f"earns, and below 0 where nothing is known. At the start: round 0, before any update. At the end: the "
            f"last {FINAL_ROUNDS} rounds. Intervals are Student's, over seeds.",
            "From whom: of the groups on a table that a node trained on before it had learned that table (as under "
            "aha moments), the share that nodes wrote which knew it at the start, against that of groups drawn evenly "
            "from all peers. Others may have learned it before, and their groups teach as well.",
        ),
        tuple(parts),
    )


def _exam(evidence: Evidence) -> list[Table | Picture]:
    found = exam_by_knowledge(evidence.exams)
    if found.empty:
        return []
    caption = "The exam before and after, above the best constant answer: by configuration and rounds trained."
    table = _means(found, ["whose", "configuration", "rounds_done"], "above_constant", "above_constant")
    return [
        Table("learned_exam", caption, evidence.look.in_order(table, "whose", "configuration", "rounds_done"), _EXAM)
    ]


def _sources(evidence: Evidence) -> list[Table | Picture]:
    if evidence.taught.empty or (runs := by_source(evidence.taught)).empty:
        return []
    runs = runs.assign(excess=runs["share"] - runs["chance"])
    excess = _means(runs, ["configuration"], "excess", "excess")
    means = (
        runs.groupby("configuration")[["share", "chance"]].mean().join(runs.groupby("configuration")["groups"].sum())
    )
    table = evidence.look.in_order(means.reset_index().merge(excess, on="configuration"), "configuration")
    return [
        Table("taught_by", "Who taught, by configuration, means over runs.", table, _TAUGHT_BY),
        Table("taught", "By node and table.", evidence.taught, _TAUGHT),
    ]


def over_seeds(runs: pd.DataFrame, look: FigureStyle) -> pd.DataFrame:
    """Returns one row per configuration and `whose`: means over seeds of start and end, each with its interval."""
    by = ["whose", "configuration"]
    start, end = _means(runs, by, "start", "start"), _means(runs, by, "last", "last")
    tagged = runs.groupby(by, sort=False)["tagged"].mean().reset_index()
    table = start.merge(end.drop(columns="seeds"), on=by).merge(tagged, on=by)
    return look.in_order(table, "whose", "configuration")


def _means(rows: pd.DataFrame, by: list[str], column: str, name: str) -> pd.DataFrame:
    """Returns mean and 95 % interval of a column over the seeds: `name`, `name`_low, `name`_high and `seeds`."""
    found = []
    for key, own in rows.groupby(by, sort=False):
        effect = mean_effect(own[column].dropna().tolist())
        found.append((*key, own["seed"].nunique(), *effect))
    return pd.DataFrame(found, columns=[*by, "seeds", name, f"{name}_low", f"{name}_high"])


def curves(knowledge: pd.DataFrame, look: FigureStyle, window: int) -> Any:
    """Two panels, others' tables and own ones: one line per configuration, the mean over its seeds."""
    figure, axes = new_figure(3.0, 1, 2)
    for axis, (whose, title) in zip(axes, ((OTHERS, "tables that only others knew"), (OWN, "own tables")), strict=True):
        for name, rows in look.split(knowledge[knowledge["whose"] == whose]):
            draw_mean(axis, look, name, smooth(common_rounds(by_seed(rows, "above_constant")), window))
        axis.axhline(0, color="grey", linewidth=0.6)
        axis.set(title=title, xlabel="round")
    axes[0].set_ylabel("accuracy above the constant")
    legend_below(figure, 4)
    return figure


_WHOSE = Column("tables", "whose", numeric=False)
_LEARNED = (
    _WHOSE,
    CONFIGURATION,
    Column("seeds", "seeds", whole),
    Column("at the start", "start", signed(3)),
    Column(INTERVAL, "start_low", signed(3), to="start_high"),
    Column("at the end", "last", signed(3)),
    Column(INTERVAL, "last_low", signed(3), to="last_high"),
    Column("tagged", "tagged", percent),
)
_BY_SEED = (
    _WHOSE,
    CONFIGURATION,
    SEED,
    Column("at the start", "start", signed(3)),
    Column("first ten rounds", "first", signed(3)),
    Column("at the end", "last", signed(3)),
    Column("tagged", "tagged", percent),
)
_EXAM = (
    _WHOSE,
    CONFIGURATION,
    Column("rounds trained", "rounds_done", whole),
    Column("seeds", "seeds", whole),
    Column("above the constant", "above_constant", signed(3)),
    Column(INTERVAL, "above_constant_low", signed(3), to="above_constant_high"),
)
_TAUGHT_BY = (
    CONFIGURATION,
    Column("runs", "seeds", whole),
    Column("groups", "groups", whole),
    Column("from nodes that knew", "share", percent),
    Column("by chance", "chance", percent),
    Column("above chance", "excess", signed_percent),
    Column(INTERVAL, "excess_low", signed_percent, to="excess_high"),
)
_TAUGHT = (
    CONFIGURATION,
    SEED,
    Column("node", "node_id", numeric=False),
    Column("task", "task", numeric=False),
    Column("learned in round", "learned", whole),
    Column("groups before", "groups", whole),
    Column("from nodes that knew", "from_knowing", whole),
    Column("share", "share", percent),
    Column("by chance", "chance", percent),
)
