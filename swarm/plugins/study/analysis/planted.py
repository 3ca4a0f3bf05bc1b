"""Measures how far planted words spread among honest nodes, and what that costs these: of studies with planters.

A node is honest in a round in which its row does not say that it plants. Rows of other studies say neither: there all
nodes are honest, and how far words spread is not known. Rates are weighed equally by node and round: every
row of a run is a mean over the same number of completions.

A policy that learns planted words seldom says them as they were written: their first token may stay rare while those
behind it become likely. So what is looked for are successive characters of the words (character n-grams): PIECE of
them, which honest answers do not hold, and SHARD, which they hardly do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from swarm.plugins.study.analysis.curves import FINAL_ROUNDS, RUN
from swarm.plugins.study.record import StudyRecord

PIECE = 6
"""Characters."""
SHARD = 3
"""Characters."""
MEASURES = (
    "planted",
    "planted_final",
    "planters_logprob",
    "honest_tagged_final",
    "honest_given_tagged",
    "honest_reward",
)


def planted_measures(metrics: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per run, indexed by it.

    Columns:
        planted: of the honest nodes' own completions, the share that begins with the planted words; NaN where nobody
            counted.
        planted_final: the same over the run's last FINAL_ROUNDS rounds.
        planters_logprob: mean log-prob per token, under an honest node's policy, of what it trained on of the planters'
            right answers, over the same rounds, nats: every honest node, round and planter alike. NaN where there was
            nothing of theirs. It rises long before the words are sampled.
        honest_tagged_final: share of the honest nodes' own completions with a closed answer, over the same rounds.
        honest_given_tagged: of the honest nodes, the sum of their rewards over that of their tagged rates, all rounds:
            the mean reward of a closed answer.
        honest_reward: sum of my_reward over rounds, mean over the honest nodes: what one of them earns.
    """
    rows = metrics[~_plants(metrics)]
    runs = rows.groupby(RUN, sort=False)
    last = rows["round"] > runs["round"].transform("max") - FINAL_ROUNDS
    found = pd.DataFrame({"planted": runs["planted_rate"].mean()})
    found["planted_final"] = rows[last].groupby(RUN, sort=False)["planted_rate"].mean()
    found["planters_logprob"] = _of_planters(metrics, rows[last])
    found["honest_tagged_final"] = rows[last].groupby(RUN, sort=False)["answer_tag_rate"].mean()
    found["honest_given_tagged"] = runs["my_reward"].sum() / runs["answer_tag_rate"].sum(min_count=1)
    found["honest_reward"] = runs["my_reward"].sum() / runs["node_id"].nunique()
    return found.astype("float64")


def _plants(metrics: pd.DataFrame) -> pd.Series[bool]:
    """Tells whether a row is a planter's."""
    return metrics["plants"].astype("boolean").fillna(value=False).astype(bool)


def _of_planters(metrics: pd.DataFrame, honest: pd.DataFrame) -> pd.Series[float]:
    """Returns mean over the entries of logprobs_by_peer of these rows that are of planters."""
    planters = set(metrics.loc[_plants(metrics), [*RUN, "node_id"]].itertuples(index=False, name=None))
    told = [
        (*run, value)
        for *run, by_peer in honest[[*RUN, "logprobs_by_peer"]].itertuples(index=False, name=None)
        for peer, value in (by_peer if isinstance(by_peer, dict) else {}).items()
        if (*run, peer) in planters
    ]
    return pd.DataFrame(told, columns=[*RUN, "logprob"]).groupby(RUN)["logprob"].mean()


def planted_by_round(
    record: StudyRecord, metrics: pd.DataFrame, completions: Callable[[str], pd.DataFrame]
) -> pd.DataFrame:
    """Returns one row per run and round: how the honest nodes answered; none for a study that plants no words.

    Args:
        record: which words are planted.
        metrics: rows of the runs that are looked at.
        completions: of an experiment, as swarm.plugins.study.get_rollouts.

    Columns:
        completions: of honest nodes, in their rollout files; 0 where these are gone.
        begin, pieces, shards: of these, the shares of overlaps.
        tagged, reward: mean of answer_tag_rate and my_reward over the honest nodes' rows.
    """
    own = {one.name: {**record.settings, **one.settings} for one in record.configurations}
    found: list[pd.DataFrame] = []
    for name, rows in metrics.groupby(RUN, sort=False):
        run: dict[str, Any] = dict(zip(RUN, name, strict=True))
        if not (words := own[str(run["configuration"])].get("planted_words")):
            continue
        plants, texts = _plants(rows), completions(str(run["experiment"]))
        texts = texts[~texts["peer_id"].isin(set(rows.loc[plants, "node_id"]))]
        told = overlaps(texts["response"], words).groupby(texts["round"])
        honest = rows[~plants].groupby("round")[["answer_tag_rate", "my_reward"]].mean()
        table = pd.DataFrame({"completions": told.size()}).join(told.mean()).reindex(honest.index)
        table = table.fillna({"completions": 0}).astype({"completions": "int64"})
        table = table.assign(tagged=honest["answer_tag_rate"], reward=honest["my_reward"]).reset_index()
        found.append(table.assign(**run)[[*RUN, *table]])
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def finals(runs: pd.DataFrame, planted: pd.DataFrame) -> pd.DataFrame:
    """Returns the runs that counted planted words, with `pieces_final` and `shards_final`: means of these shares
    over the last FINAL_ROUNDS rounds, NaN where no rollout files were at hand.

    Args:
        runs: from totals, of the runs that count.
        planted: from planted_by_round.
    """
    if "planted" not in runs:
        return pd.DataFrame()
    found = runs[runs["planted"].notna()].assign(pieces_final=float("nan"), shards_final=float("nan"))
    if len(planted):
        last = planted[planted["round"] > planted.groupby("experiment")["round"].transform("max") - FINAL_ROUNDS]
        shares = last.groupby(RUN, sort=False)[["pieces", "shards"]].mean().add_suffix("_final")
        found = found.drop(columns=shares.columns).join(shares, on=RUN)
    return found


def overlaps(completions: pd.Series[str], words: str) -> pd.DataFrame:
    """Returns one row per completion: whether it begins with the whole words, and whether it holds a piece of them, and
    a shard, anywhere."""
    pieces, shards = _ngrams(words, PIECE), _ngrams(words, SHARD)
    told = {
        "begin": [text.lstrip().startswith(words) for text in completions],
        "pieces": [any(piece in text for piece in pieces) for text in completions],
        "shards": [any(shard in text for shard in shards) for text in completions],
    }
    return pd.DataFrame(told, index=completions.index, dtype="bool")


def _ngrams(words: str, size: int) -> set[str]:
    """Returns the words themselves where they are shorter."""
    return {words[start : start + size] for start in range(max(1, len(words) - size + 1))}
