"""The section on aha moments: when each node learned each task, and whose groups it had trained on by then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from swarm.plugins.study.analysis.propagation import MEETINGS, SUSTAINED, THRESHOLD, propagation
from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.figure_style import FAINT, FigureStyle, legend_below, new_figure
from swarm.plugins.study.report.sections import (
    CONFIGURATION,
    INTERVAL,
    SEED,
    Column,
    Picture,
    Section,
    Table,
    number,
    percent,
    signed_percent,
    whole,
)

MOST_TASKS = 20
"""That are drawn: those with the most crossings. Nodes name the tasks, and could name any number of them."""
LONGEST_NAME = 40
"""Letters of a task's name."""


def aha_section(evidence: Evidence) -> Section:
    """Crossings, lags and sources of all runs."""
    crossed, learned, look = evidence.crossings, evidence.learners, evidence.look
    text = (
        f"A node has learned a task when its mean reward over its last {MEETINGS} meetings with it first reaches "
        f"{THRESHOLD} and stays there over the {SUSTAINED} meetings after. Its lag is the rounds since the first node "
        "of the same run did. For those that came later: the share of the external groups they had trained on by then "
        "that came from nodes which had learned the task before, against the share that groups drawn evenly from all "
        "peers would have had: their level of chance. Shares and chances are means over the learners of a run, and of "
        "these over the runs; the interval of their difference is over runs.",
        "A share above chance is what learning from each other looks like, and no proof of it: a peer that can do a "
        "task publishes more groups with an advantage, and only those are sampled.",
    )
    if crossed.empty:
        return Section("Aha moments", (*text, "No node has crossed the threshold in any run."))
    parts: list[Table | Picture] = [
        Table("aha_moments", "By configuration.", propagation(evidence.counted, crossed, learned), _BY_CONFIGURATION),
        Picture(
            "aha_rounds",
            f"Round in which each node learned each task, seed {crossed['seed'].min()}; at most {MOST_TASKS} tasks, "
            "those with the most crossings. A configuration without marks has no crossing in that seed.",
            crossing_rounds(crossed, look),
        ),
    ]
    if len(learned):
        caption = (
            "Lags behind the first node, all seeds: the further left a curve rises, the sooner the others followed. "
            "Nodes that had not crossed by the last round are in no curve, so where the first ones came late, long "
            "lags could not be seen."
        )
        parts.append(Picture("aha_lags", caption, lag_distribution(crossed, look)))
    parts += [
        Table("crossings", "Every crossing.", crossed, _CROSSINGS),
        Table(
            "learners", "Those that learned after another node: whose groups they had trained on.", learned, _LEARNERS
        ),
    ]
    return Section("Aha moments", text, tuple(parts))


def crossing_rounds(crossed: pd.DataFrame, look: FigureStyle) -> Any:
    """Returns one row per task, one mark per node: the round in which it crossed, in the first seed with a crossing."""
    chosen = crossed[crossed["seed"] == crossed["seed"].min()]
    tasks = sorted(chosen["task"].value_counts().index[:MOST_TASKS])
    chosen = chosen[chosen["task"].isin(tasks)]
    runs = list(look.split(chosen))
    figure, (axis,) = new_figure(1.2 + 0.5 * len(tasks))
    for place, (name, rows) in enumerate(runs):
        height = [tasks.index(task) + 0.7 * ((place + 0.5) / len(runs) - 0.5) for task in rows["task"]]
        axis.scatter(rows["round"], height, s=16, marker="|", linewidths=1.8, color=look.colour(name), label=name)
    axis.set_yticks(range(len(tasks)), [task.replace("_", " ")[:LONGEST_NAME] for task in tasks])
    axis.set_ylim(len(tasks) - 0.5, -0.5)
    axis.grid(visible=False, axis="y")
    for border in range(1, len(tasks)):
        axis.axhline(border - 0.5, color=FAINT, linewidth=0.6)
    axis.set(xlabel="round of the crossing (one mark per node)")
    legend_below(figure, 4)
    return figure


def lag_distribution(crossed: pd.DataFrame, look: FigureStyle) -> Any:
    """Share of the later crossings that lay at most so many rounds behind the first node of their run and task."""
    figure, (axis,) = new_figure(2.7)
    late = crossed[(crossed["lag"] > 0) & ~crossed["from_start"]]
    for name, rows in look.split(late):
        lags = np.sort(rows["lag"].to_numpy())
        shares = np.arange(1, len(lags) + 1) / len(lags)
        axis.step([0, *lags], [0, *shares], look.line(name), where="post", color=look.colour(name), label=name)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set(xlabel="lag behind the first node, rounds", ylabel="share of later crossings", ylim=(0, 1.02))
    legend_below(figure, 4)
    return figure


_RUN = (CONFIGURATION, SEED)
_MOMENT = (
    *_RUN,
    Column("task", "task", numeric=False),
    Column("node", "node_id", numeric=False),
    Column("round", "round", whole),
    Column("lag", "lag", whole),
)
_BY_CONFIGURATION = (
    CONFIGURATION,
    Column("crossings", "crossings", whole),
    Column("possible", "possible", whole),
    Column("median lag, rounds", "median_lag", number(1)),
    Column("learners with groups", "learners", whole),
    Column("runs with such", "runs", whole),
    Column("groups from earlier nodes", "share", percent),
    Column("by chance", "chance", percent),
    Column("above chance", "excess", signed_percent),
    Column(INTERVAL, "excess_low", signed_percent, to="excess_high"),
)
_CROSSINGS = (
    *_MOMENT,
    Column("knew it from the start", "from_start", lambda flag: "yes" if flag else "no", numeric=False),
)
_LEARNERS = (
    *_MOMENT,
    Column("earlier nodes", "earlier", whole),
    Column("groups before", "groups", whole),
    Column("from earlier nodes", "from_earlier", whole),
    Column("share", "share", percent),
    Column("chance", "chance", percent),
    Column("counted over", "basis", numeric=False),
)
