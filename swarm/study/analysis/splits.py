"""How adaptive rules move J, and what they see meanwhile. Pure.

metrics (one row per run, node and round) ─splits_by_round─▶ one row per run and round ─split_measures─▶ one per run
"""

from __future__ import annotations

import pandas as pd

from swarm.study.analysis.measures import FINAL_ROUNDS, RUN

THIRDS = ("J_first", "J_middle", "J_last")
NEAR = 0.5
"""Groups by which J may be off its mean over the last FINAL_ROUNDS rounds and have settled: more is another whole J."""
_COLUMNS = ("J", "changed", "own_informative", "swarm_quality")


def splits_by_round(metrics: pd.DataFrame) -> pd.DataFrame:
    """One row per run and round in which a rule chose the split; none where none ever did.

    Columns, means over the nodes, NaN where the rows do not tell:
        J: what the rule wanted, before it was rounded.
        changed: share of the nodes whose rounded J is another than in their row before; NaN in their first row.
        own_informative: share of own groups with an advantage.
        swarm_quality: share of the peers' groups with an advantage, of nodes that saw any; NaN where none did.
    """
    rows = metrics.dropna(subset=["adaptive_J"]).sort_values("round", kind="stable")
    if rows.empty:
        return pd.DataFrame(columns=[*RUN, "round", *_COLUMNS])
    rounded = rows["adaptive_J"].astype("float64")
    step = rounded.groupby([rows[name] for name in (*RUN, "node_id")], sort=False).diff()
    seen = _column(rows, "pool_groups")
    found = rows[[*RUN, "round"]].assign(
        J=_column(rows, "adaptive_J_continuous").fillna(rounded),
        changed=(step != 0).where(step.notna()).astype("float64"),
        own_informative=1 - _column(rows, "zero_advantage_local"),
        swarm_quality=_column(rows, "pool_informative") / seen.where(seen > 0),
    )
    return found.groupby([*RUN, "round"], sort=True)[[*_COLUMNS]].mean().reset_index()


def _column(rows: pd.DataFrame, name: str) -> pd.Series[float]:
    """NaN where the rows do not tell."""
    if name not in rows:
        return pd.Series(float("nan"), index=rows.index)
    return rows[name].astype("float64")


def split_measures(splits: pd.DataFrame) -> pd.DataFrame:
    """One row per run of these, from splits_by_round.

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
