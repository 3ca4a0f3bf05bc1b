"""Measures how adaptive rules move J, and what they see meanwhile. Pure.

metrics (one row per run, node and round) ─splits_by_round─▶ one row per run and round ─split_measures─▶ one per run
"""

from __future__ import annotations

import statistics

import pandas as pd

from swarm.plugins.study.analysis.curves import FINAL_ROUNDS, RUN, ratio
from swarm.plugins.study.budget import Moves

THIRDS = ("J_first", "J_middle", "J_last")
NEAR = 0.5
"""Groups by which J may be off its mean over the last FINAL_ROUNDS rounds and have settled: more is another whole J."""
_COLUMNS = ("J", "changed", "own_informative", "swarm_quality", "furthest")


def splits_by_round(metrics: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per run and round in which a rule chose the split; none where none ever did.

    Columns, means over the nodes, NaN where the rows do not tell:
        J: what the rule wanted, before it was rounded.
        changed: share of the nodes whose rounded J is another than in their row before; NaN in their first row.
        own_informative: share of own groups with an advantage.
        swarm_quality: share of the peers' groups with an advantage, of nodes that saw any; NaN where none did.
        furthest: how far J is from the node's first one; the largest of the nodes.
    """
    rows = metrics.dropna(subset=["adaptive_J"]).sort_values("round", kind="stable")
    if rows.empty:
        return pd.DataFrame(columns=[*RUN, "round", *_COLUMNS])
    rounded = rows["adaptive_J"].astype("float64")
    nodes = [rows[name] for name in (*RUN, "node_id")]
    step = rounded.groupby(nodes, sort=False).diff()
    wanted = rows["adaptive_J_continuous"].astype("float64").fillna(rounded)
    seen = rows["pool_groups"].astype("float64")
    found = rows[[*RUN, "round"]].assign(
        J=wanted,
        changed=(step != 0).where(step.notna()).astype("float64"),
        own_informative=1 - rows["zero_advantage_local"],
        swarm_quality=ratio(rows["pool_informative"].astype("float64"), seen),
        furthest=(wanted - wanted.groupby(nodes, sort=False).transform("first")).abs(),
    )
    rounds = found.groupby([*RUN, "round"], sort=True)
    means = rounds[[*_COLUMNS]].mean()
    return means.assign(furthest=rounds["furthest"].max()).reset_index()


def split_measures(splits: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per run of these, from splits_by_round.

    Columns:
        J_first, J_middle, J_last: mean J over the first, the middle and the last third of the run's rounds.
        changes: share of rounds in which a node's J is another than in the round before.
        settled: first round from which on J stays within NEAR groups of its mean over the last FINAL_ROUNDS rounds; NaN
            if that is one of these, so that it had not settled when the run ended.
    """
    found = [
        dict(zip(RUN, name, strict=True)) | _of_run(run["J"].reset_index(drop=True), run["changed"], run["round"])
        for name, run in splits.groupby(RUN, sort=False)
    ]
    return pd.DataFrame(found, columns=[*RUN, *THIRDS, "changes", "settled"])


def _of_run(J: pd.Series[float], changed: pd.Series[float], rounds: pd.Series[int]) -> dict[str, float]:
    third = J.index * len(THIRDS) // len(J)
    means = {name: float(J[third == number].mean()) for number, name in enumerate(THIRDS)}
    far = J.index[(J - J.tail(FINAL_ROUNDS).mean()).abs() > NEAR]
    first = int(far[-1]) + 1 if len(far) else 0
    settled = float(rounds.iloc[first]) if first <= len(J) - FINAL_ROUNDS else float("nan")
    return means | {"changes": float(changed.mean()), "settled": settled}


def quality_and_split(splits: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per run of these, by its name: how swarm quality and J of a round go together, over the run's
    rounds.

    Columns:
        quality_J: Pearson's correlation of the two. Both may just have a trend, which this cannot tell from a link.
        quality_J_changes: that of their changes from one round to the next, which has no trend in it.

    NaN of fewer than three rounds with both, and where one of them never changed.
    """
    names = ["quality_J", "quality_J_changes"]
    found = [
        (
            *name,
            _correlation(run["swarm_quality"], run["J"]),
            _correlation(run["swarm_quality"].diff(), run["J"].diff()),
        )
        for name, run in splits.groupby(RUN, sort=False)
    ]
    return pd.DataFrame(found, columns=[*RUN, *names]).set_index(RUN)[names].astype("float64")


def _correlation(a: pd.Series[float], b: pd.Series[float]) -> float:
    both = pd.DataFrame({"a": a, "b": b}).astype("float64").dropna()
    if len(both) < 3 or both.nunique().min() < 2:
        return float("nan")
    return statistics.correlation(both["a"].to_list(), both["b"].to_list())  # the same bits on every processor


def moves_by_configuration(splits: pd.DataFrame) -> dict[str, Moves]:
    """Returns how far J went in all runs of a configuration; none of tables that do not tell."""
    if "furthest" not in splits:
        return {}
    return {
        str(name): Moves(int(rows.groupby("experiment").size().max()), float(rows["furthest"].max()))
        for name, rows in splits.groupby("configuration", sort=False)
    }
