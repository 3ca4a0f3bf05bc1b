"""The section on aha moments: who learned what when, and from whom they had had their groups."""

from __future__ import annotations

import pandas as pd

from swarm.study.analysis.propagation import MEETINGS, SUSTAINED, THRESHOLD, crossings, learners, propagation
from swarm.study.report.figure_style import Look
from swarm.study.report.figures_aha import MOST_TASKS, crossing_rounds, lag_distribution
from swarm.study.report.sections import CONFIGURATION, SEED, Column, Picture, Section, Table, number, percent, whole


def aha_section(metrics: pd.DataFrame, look: Look) -> Section:
    """Crossings, lags and sources of all runs."""
    crossed = crossings(metrics)
    text = (
        f"A node has learned a task when its mean reward over its last {MEETINGS} meetings with it first reaches "
        f"{THRESHOLD} and stays there over the {SUSTAINED} meetings after. Its lag is the rounds since the first node "
        "of the same run did. For those that came later: the share of the external groups they had trained on by then "
        "that came from nodes which had learned the task before, against the share that groups drawn evenly from all "
        "peers would have had.",
        "A share above chance is what learning from each other looks like, and no proof of it: a peer that can do a "
        "task publishes more groups with an advantage, and only those are sampled.",
    )
    if crossed.empty:
        return Section("Aha moments", (*text, "No node has crossed the threshold in any run."))
    learned = learners(metrics, crossed)
    parts: list[Table | Picture] = [
        Table("aha_moments", "By configuration.", propagation(metrics, crossed, learned), _BY_CONFIGURATION),
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
    Column("groups from earlier nodes", "share", percent),
    Column("expected by chance", "chance", percent),
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
