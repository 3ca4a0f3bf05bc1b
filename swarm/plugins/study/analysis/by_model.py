"""Computes what nodes of unlike models earn, in one swarm or in several. Pure."""

from __future__ import annotations

import pandas as pd

from swarm.plugins.study.analysis.curves import RUN
from swarm.plugins.study.analysis.effect_size import mean_by
from swarm.plugins.study.record import StudyRecord


def rewards_by_model(metrics: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per run and model; none where no swarm mixes models.

    Columns:
        model: its name, as the nodes' rows have it.
        nodes: with rows, of that model.
        node_reward: sum of my_reward over the rounds, mean over these nodes.
    """
    columns = [*RUN, "model", "nodes", "node_reward"]
    if metrics.groupby(RUN)["model"].nunique().max() < 2:
        return pd.DataFrame(columns=columns)
    models = metrics.groupby([*RUN, "model"], sort=False)
    found = models.agg(nodes=("node_id", "nunique"), node_reward=("my_reward", "sum")).reset_index()
    return found.assign(node_reward=found["node_reward"] / found["nodes"])[columns]


def weaker_over_stronger(metrics: pd.DataFrame) -> pd.Series[float]:
    """Run -> what a node of the weaker model earned in it / what one of the stronger did; none without mixed swarms.

    The weaker is the model that was named first, so that of the first node, the stronger the one that was named last:
    said before the runs, no outcome has a part in it. Between two configurations of equal seeds the ratio of these is
    how many times as much as the stronger the weaker gained. NaN where the stronger earned nothing.
    """
    rewards = rewards_by_model(metrics)
    if rewards.empty:
        return pd.Series(dtype="float64", name="node_reward")
    named = metrics.sort_values("node_id", kind="stable")["model"].unique()
    runs = rewards.set_index([*RUN, "model"])["node_reward"].unstack("model")
    weaker, stronger = runs[named[0]], runs[named[-1]]
    found: pd.Series[float] = weaker / stronger.where(stronger > 0)
    return found


def models_table(models: pd.DataFrame, record: StudyRecord) -> pd.DataFrame:
    """Returns one row per model and configuration: what one node of it earns, mean over runs with its interval, and
    `improvement` over the same model in the configuration's baseline, a share; NaN if that has none.

    Args:
        models: from rewards_by_model.
        record: the study.
    """
    by = ["model", "configuration"]
    table = mean_by(models, by, "node_reward").rename(columns={"seeds": "runs"})
    baselines = {found.name: found.baseline for found in record.configurations}
    table.insert(2, "baseline", table["configuration"].map(baselines))
    table.insert(4, "nodes", models.groupby(by, sort=False)["nodes"].mean().to_numpy())
    means = table.set_index(by)["node_reward"]
    theirs = means.reindex(pd.MultiIndex.from_frame(table[["model", "baseline"]])).to_numpy()
    table["improvement"] = table["node_reward"] / pd.Series(theirs).where(theirs != 0) - 1
    return table
