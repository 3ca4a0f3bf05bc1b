"""What nodes of unlike models earn, in one swarm or in several. Pure."""

from __future__ import annotations

import pandas as pd

from swarm.views.tables.columns import RUN as RUN_COLUMNS

RUN = list(RUN_COLUMNS)


def rewards_by_model(metrics: pd.DataFrame) -> pd.DataFrame:
    """One row per run and model; none where no swarm mixes models.

    Columns:
        model: its name, as the nodes' rows have it.
        nodes: with rows, of that model.
        node_reward: sum of my_reward over the rounds, mean over these nodes.
    """
    columns = [*RUN, "model", "nodes", "node_reward"]
    if "model" not in metrics or metrics.groupby(RUN)["model"].nunique().max() < 2:
        return pd.DataFrame(columns=columns)
    found = (
        metrics.groupby([*RUN, "model"], sort=False)
        .agg(
            nodes=("node_id", "nunique"),
            node_reward=("my_reward", "sum"),
        )
        .reset_index()
    )
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
