"""How far planted words spread among honest nodes, and what that costs these: of studies with planters.

A node is honest in a round in which its row does not say that it plants. Rows of other studies have neither column:
there all nodes are honest, and how far words spread is not known. Rates are weighed equally by node and round: every
row of a run is a mean over the same number of completions.
"""

from __future__ import annotations

import pandas as pd

from swarm.study.tables.columns import RUN as RUN_COLUMNS

RUN = list(RUN_COLUMNS)
FINAL_ROUNDS = 10
"""Rounds at the end of a run over which it is also told."""
MEASURES = ("planted", "planted_final", "planters_logprob", "honest_reward")


def planted_measures(metrics: pd.DataFrame) -> pd.DataFrame:
    """One row per run, indexed by it.

    Columns:
        planted: of the honest nodes' own completions, the share that begins with the planted words; NaN where nobody
            counted.
        planted_final: the same over the run's last FINAL_ROUNDS rounds.
        planters_logprob: mean log-prob per token, under an honest node's policy, of what it trained on of the planters'
            right answers, over the same rounds, nats: every honest node, round and planter alike. NaN where there was
            nothing of theirs. It rises long before the words are sampled.
        honest_reward: sum of my_reward over rounds, mean over the honest nodes: what one of them earns.
    """
    rows = metrics
    if "plants" in metrics:
        rows = metrics[~metrics["plants"].astype("boolean").fillna(value=False).astype(bool)]
    if "planted_rate" not in metrics:
        rows = rows.assign(planted_rate=float("nan"))
    runs = rows.groupby(RUN, sort=False)
    last = rows["round"] > runs["round"].transform("max") - FINAL_ROUNDS
    found = pd.DataFrame({"planted": runs["planted_rate"].mean()})
    found["planted_final"] = rows[last].groupby(RUN, sort=False)["planted_rate"].mean()
    found["planters_logprob"] = _of_planters(metrics, rows[last])
    found["honest_reward"] = runs["my_reward"].sum() / runs["node_id"].nunique()
    return found.astype("float64")


def _of_planters(metrics: pd.DataFrame, honest: pd.DataFrame) -> pd.Series[float]:
    """Mean over the entries of logprobs_by_peer of these rows that are of planters."""
    if not {"plants", "logprobs_by_peer"} <= set(metrics):
        return pd.Series(dtype="float64")
    plants = metrics[metrics["plants"].astype("boolean").fillna(value=False).astype(bool)]
    planters = set(plants[[*RUN, "node_id"]].itertuples(index=False, name=None))
    told = [
        (*run, value)
        for *run, by_peer in honest[[*RUN, "logprobs_by_peer"]].itertuples(index=False, name=None)
        for peer, value in (by_peer if isinstance(by_peer, dict) else {}).items()
        if (*run, peer) in planters
    ]
    return pd.DataFrame(told, columns=[*RUN, "logprob"]).groupby(RUN)["logprob"].mean()
