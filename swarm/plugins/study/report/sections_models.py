"""The section on swarms that mix models: what a node of each earns, beside swarms of one model."""

from __future__ import annotations

from typing import Any

import pandas as pd

from swarm.plugins.study.analysis.effect_size import mean_effect
from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.sections import (
    CONFIGURATION,
    INTERVAL,
    Column,
    Section,
    Table,
    is_missing,
    number,
    signed_percent,
    whole,
)


def models_section(evidence: Evidence) -> Section | None:
    """None where no swarm mixes models."""
    if evidence.models.empty:
        return None
    return Section(
        "By model",
        (
            "Where a swarm mixes models, the mean over its nodes hides who gains. What one node of a model earns in "
            "all rounds, mean over the nodes of that model in a run, and of that the mean over the runs with its 95 % "
            "interval by Student's t; against the same model in the configuration's baseline, means over runs.",
        ),
        (Table("by_model", "One node, by model and configuration.", models_table(evidence), _COLUMNS),),
    )


def models_table(evidence: Evidence) -> pd.DataFrame:
    """One row per model and configuration; `improvement` is a share, NaN without a baseline that has the model."""
    baselines = {found.name: found.baseline for found in evidence.record.configurations}
    found: list[dict[str, Any]] = []
    for (model, name), rows in evidence.models.groupby(["model", "configuration"], sort=False):
        mean, low, high = mean_effect(rows["node_reward"].tolist())
        found.append(
            {
                "model": model,
                "configuration": name,
                "baseline": baselines[str(name)],
                "runs": len(rows),
                "nodes": rows["nodes"].mean(),
                "node_reward": mean,
                "node_reward_low": low,
                "node_reward_high": high,
            }
        )
    table = pd.DataFrame(found)
    mean_of = table.set_index(["model", "configuration"])["node_reward"]
    of_baseline = [mean_of.get((row["model"], row["baseline"])) for row in found]
    table["improvement"] = [
        own / other - 1 if other and not is_missing(other) else float("nan")
        for own, other in zip(table["node_reward"], of_baseline, strict=True)
    ]
    return evidence.look.in_order(table, "model", "configuration")


_COLUMNS = (
    Column("model", "model", numeric=False),
    CONFIGURATION,
    Column("runs", "runs", whole),
    Column("nodes of it", "nodes", number(1)),
    Column("cumulative reward of one", "node_reward", number(2)),
    Column(INTERVAL, "node_reward_low", number(2), to="node_reward_high"),
    Column("against", "baseline", numeric=False),
    Column("improvement", "improvement", signed_percent),
)
