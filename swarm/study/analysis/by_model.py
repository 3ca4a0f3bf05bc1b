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
