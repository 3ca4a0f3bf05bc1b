"""The section on what a unit of reward costs: seconds, tokens, and bytes written and read."""

from __future__ import annotations

import pandas as pd

from swarm.plugins.study.budget import said_of_sizes
from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.sections import CONFIGURATION, Column, Section, Table, number, whole

SPENT = ("wall_seconds", "tokens_generated", "tokens_trained", "bytes_published", "bytes_fetched")


def price_section(evidence: Evidence) -> Section:
    """What was spent by all nodes of a run, and that over the cumulative reward."""
    return Section(
        "What a unit of reward costs",
        (
            "Means over the runs that count, all nodes of a run together; seconds are the wall-clock of a swarm. Bytes "
            "are what the nodes wrote for each other and what they read of each other: rollout files, and the weights "
            "where nodes average them. A node writes its rollouts whether or not anybody reads them. Bytes per unit of "
            "reward are the bytes written and read over the cumulative reward, the mean of both over the runs.",
            *filter(None, [said_of_sizes(evidence.record)]),
        ),
        (Table("price", "Of one run, by configuration.", price_table(evidence), _COLUMNS),),
    )


def price_table(evidence: Evidence) -> pd.DataFrame:
    """One row per configuration: `reward`, what was spent for it, and per unit of it; nothing per unit of zero."""
    wanted = ["cumulative_reward", *SPENT]
    found = evidence.counted.groupby("configuration", observed=True)[wanted].mean()
    found = found.rename(columns={"cumulative_reward": "reward"})
    found["bytes_moved"] = found["bytes_published"] + found["bytes_fetched"]
    earned = found["reward"].where(found["reward"] > 0)
    found["bytes_per_reward"] = found["bytes_moved"] / earned
    found["generated_per_reward"] = found["tokens_generated"] / earned
    found["trained_per_reward"] = found["tokens_trained"] / earned
    return evidence.look.in_order(found.reset_index(), "configuration")


_COLUMNS = (
    CONFIGURATION,
    Column("cumulative reward", "reward", number(2)),
    Column("seconds", "wall_seconds", whole),
    Column("tokens generated", "tokens_generated", whole),
    Column("tokens trained on", "tokens_trained", whole),
    Column("bytes written", "bytes_published", whole),
    Column("bytes read", "bytes_fetched", whole),
    Column("bytes per unit of reward", "bytes_per_reward", whole),
    Column("tokens generated per unit", "generated_per_reward", whole),
    Column("tokens trained on per unit", "trained_per_reward", whole),
)
