"""Sums over the nodes of swarms of unlike sizes, brought to the size of the study's swarms. Pure.

A swarm of one node that earns 10 is beside eight nodes that earn 60 together the better one: 8 x 10 = 80. So sums are
shown for as many nodes as the study has, and what a node spent as the share of one of so many.
"""

from __future__ import annotations

import pandas as pd

from swarm.plugins.study.record import StudyRecord

SUMS = ("cumulative_reward", "cumulative_tagged")
"""Columns of totals that are multiplied by the study's nodes over the run's; means, and what was spent, stay."""
SHARES = ("tokens_per_node", "trained_per_node")
"""Columns of agent_average that are divided by it."""


def as_of_equal_sizes(frame: pd.DataFrame, record: StudyRecord) -> pd.DataFrame:
    """The frame with those of these columns that it has brought to the study's size; as it is where all are equal.

    Args:
        frame: rows of runs with a column `configuration`.
        record: the study.
    """
    for name, nodes in record.sizes.items():
        rows, factor = frame["configuration"] == name, record.nodes / nodes
        scaled = {column: frame[column] * factor for column in SUMS if column in frame}
        scaled |= {column: frame[column] / factor for column in SHARES if column in frame}
        frame = frame.assign(**{column: frame[column].where(~rows, values) for column, values in scaled.items()})
    return frame
