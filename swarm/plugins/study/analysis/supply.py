"""Computes how many informative groups a node trains on: what a swarm of a size has, by theory, and what its rows say.

    q, the share of informative groups ─expected_informative(N, I, J)─▶ groups per node and round
    rounds (one row per run and round) ─supply_by_configuration─▶ expected beside measured, one row per configuration

A group is informative if its G rewards differ; SAPO (arXiv:2509.08721, section 3.2) discards others. A node trains on
the informative ones of its own I groups, and on up to J of those that its N - 1 peers made.
"""

from __future__ import annotations

from statistics import fmean

import pandas as pd

from swarm.algo.sampling import expected_taken
from swarm.plugins.study.analysis.curves import ratio
from swarm.plugins.study.budget import split_of
from swarm.plugins.study.record import StudyRecord

COLUMNS = ("local_groups", "informative_own", "informative_external")
"""Columns of agent_average that this reads; rows of earlier tables have none."""
START_ROUNDS = 3
"""First rounds, over all runs of a group, whose share of informative groups is that of the model to begin with."""


def expected_informative(nodes: int, local: int, external: int, share: float) -> float:
    """Informative groups that a node of such a swarm trains on in a round, in the mean.

    Own ones are I q. The pool holds X ~ Binomial((N - 1) I, q) informative groups, of which min(J, X) are taken.

    Args:
        nodes: N, at least 1; all have one split.
        local: I.
        external: J.
        share: q, of a question that is drawn anew.
    """
    return local * share + expected_taken(external, (nodes - 1) * local, share)


def supply_by_configuration(rounds: pd.DataFrame, record: StudyRecord) -> pd.DataFrame:
    """Returns one row per configuration with rounds.

    Args:
        rounds: from agent_average, of the runs that count, with the columns COLUMNS.
        record: the study.

    Columns:
        configuration, nodes, local, external: N, I and J.
        share: q to begin with, over the first START_ROUNDS rounds of all runs of the configuration's group.
        expected_start: expected_informative at that q.
        expected: the same at each round's own q, mean over rounds and runs.
        measured: informative groups trained on per node and round, mean likewise.
        reward: mean reward per node and round.
    """
    starts = _starting_shares(rounds, record)
    rows = []
    for name in (known.name for known in record.configurations):
        own = rounds[rounds["configuration"] == name]
        if own.empty:
            continue
        nodes, split = record.nodes_of(name), split_of(record, name)
        share = ratio(own["informative_own"], own["local_groups"])
        rows.append(
            {
                "configuration": name,
                "nodes": nodes,
                "local": split.local,
                "external": split.external,
                "share": starts[name],
                "expected_start": expected_informative(nodes, *split, starts[name]),
                "expected": fmean(expected_informative(nodes, *split, q) for q in share.dropna()),
                "measured": float((own["informative_own"] + own["informative_external"]).mean()),
                "reward": float(own["mean"].mean()),
            }
        )
    return pd.DataFrame(rows)


def _starting_shares(rounds: pd.DataFrame, record: StudyRecord) -> dict[str, float]:
    """Returns configuration -> q of its group's first rounds."""
    groups = {known.name: known.group for known in record.configurations}
    first = rounds[rounds["round"] < START_ROUNDS]
    sums = first[["informative_own", "local_groups"]].groupby(first["configuration"].map(groups)).sum()
    shares = ratio(sums["informative_own"], sums["local_groups"]).fillna(0.0)
    return {name: float(shares.get(group, 0.0)) for name, group in groups.items()}
