"""What nodes of unlike models earn, in one swarm or in several. Pure."""

from __future__ import annotations

import pandas as pd

from swarm.study.tables.columns import RUN as RUN_COLUMNS

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
    """Run -> what a node of the weakest model earned in it / what one of the strongest did; none without mixed swarms.

    Weaker is whose nodes earned less in round 0, over all runs: that is before any update, so that nothing that the
    runs differ in can have a part in it. Between two configurations of equal seeds the ratio of these is how many times
    as much as the stronger the weaker gained. NaN where the stronger earned nothing.
    """
    rewards = rewards_by_model(metrics)
    if rewards.empty:
        return pd.Series(dtype="float64", name="node_reward")
    start = metrics[metrics["round"] == 0].groupby("model", sort=False)["my_reward"].mean()
    runs = rewards.set_index([*RUN, "model"])["node_reward"].unstack("model")
    return runs[start.idxmin()] / runs[start.idxmax()].where(runs[start.idxmax()] > 0)
