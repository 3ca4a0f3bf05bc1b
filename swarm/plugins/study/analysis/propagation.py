"""Aha moments: the round in which each node learned a task, its lag behind the first node, and whose groups it had
trained on by then.

    metrics ─▶ meetings (node, task, round, reward) ─▶ crossings ─▶ lag behind the first node of the run
                 └ external groups by peer and task ──────┴──────▶ learners: from whom, against chance

A node *meets* a task in the rounds in which it asks itself questions of it; the reward of a meeting is the mean over
its completions of that task and round. It *crosses* at the first meeting at which the mean of the last MEETINGS ones is
at least the threshold, and stays at least that over the SUSTAINED meetings that follow. A node that meets the task too
seldom afterwards to show that has not crossed (yet).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from swarm.plugins.study.analysis.curves import RUN
from swarm.plugins.study.analysis.effect_size import mean_by

THRESHOLD = 0.5
MEETINGS = 3
SUSTAINED = 3


def meetings(metrics: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per run, task, node and round in which the node met the task, with its `reward`; sorted."""
    found = [
        (*run, task, node, round_, reward)
        for *run, node, round_, rewards in metrics[[*RUN, "node_id", "round", "task_rewards"]].itertuples(index=False)
        for task, reward in rewards.items()
    ]
    columns = [*RUN, "task", "node_id", "round", "reward"]
    return pd.DataFrame(found, columns=columns).sort_values(columns[:-1], ignore_index=True)


def crossings(
    metrics: pd.DataFrame, threshold: float = THRESHOLD, window: int = MEETINGS, sustained: int = SUSTAINED
) -> pd.DataFrame:
    """Returns one row per run, task and node that crossed, by run, task and round.

    Columns:
        task, node_id, round: of the meeting at which it crossed.
        from_start: at the earliest meeting at which that can be: the node hardly learned it then, it knew it.
        lag: rounds behind the first node of the same run and task; 0 for that one, and for those that crossed with it.
    """
    columns = [*RUN, "task", "node_id", "round", "from_start"]
    found = []
    for key, own in meetings(metrics).groupby([*RUN, "task", "node_id"], sort=False):
        place = first_sustained(own["reward"], threshold, window, sustained)
        if place is not None:
            found.append((*key, int(own["round"].iloc[place]), place == window - 1))
    crossed = pd.DataFrame(found, columns=columns).astype({"round": "int64", "from_start": "bool"})
    crossed["lag"] = crossed["round"] - crossed.groupby([*RUN, "task"])["round"].transform("min")
    return crossed.sort_values([*RUN, "task", "round", "node_id"], ignore_index=True)


def first_sustained(rewards: pd.Series[float], threshold: float, window: int, sustained: int) -> int | None:
    """Place of the first meeting from which on sustained + 1 trailing means of `window` meetings are high enough."""
    high = rewards.rolling(window).mean().to_numpy() >= threshold  # NaN before the window is full, and so not high
    if len(high) <= sustained:
        return None
    steady = np.lib.stride_tricks.sliding_window_view(high, sustained + 1).all(axis=1)
    return int(steady.argmax()) if steady.any() else None


def learners(metrics: pd.DataFrame, crossed: pd.DataFrame) -> pd.DataFrame:
    """Says from whom those that learned later had their groups: one row per crossing with a lag that was not
    `from_start`.

    A share above chance is what learning from each other looks like, not proof of it: peers that can do a task also
    publish more groups with an advantage, which are all that is sampled.

    Columns:
        task, node_id, round, lag: as in crossings.
        earlier: peers that had crossed in an earlier round.
        groups: external groups that it had trained on before that round, from anybody.
        from_earlier: of these, groups of those peers, whenever they wrote them.
        share: from_earlier / groups; NaN without any group.
        chance: earlier / peers: the share expected of groups drawn evenly from all peers of the run.
    """
    rows = dict(iter(metrics.groupby(RUN, sort=False)))
    columns = [*RUN, "task", "node_id", "round", "lag", "earlier", "groups", "from_earlier", "share", "chance"]
    found = [
        (*run, *learner) for run, own in crossed.groupby(RUN, sort=False) for learner in _learners_of(rows[run], own)
    ]
    return pd.DataFrame(found, columns=columns)


def _learners_of(metrics: pd.DataFrame, crossed: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    """Yields the rows of one run."""
    told = metrics[["node_id", "round", "external_by_peer_task"]]
    histories = dict(iter(told.groupby("node_id")))
    for _, same_task in crossed.groupby("task", sort=False):
        late = same_task[(same_task["lag"] > 0) & ~same_task["from_start"]]
        for task, node, round_, lag in late[["task", "node_id", "round", "lag"]].itertuples(index=False):
            earlier = same_task[same_task["round"] < round_]["node_id"].tolist()
            history = histories[node][histories[node]["round"] < round_]
            yield task, node, round_, lag, *_sources(history, task, earlier, peers=len(histories) - 1)


def _sources(history: pd.DataFrame, task: str, earlier: list[str], peers: int) -> tuple[Any, ...]:
    """Returns the columns of `learners` from `earlier` on."""
    by_peer = groups_by_peer(history, task)
    groups, from_earlier = sum(by_peer.values()), sum(by_peer.get(peer, 0) for peer in earlier)
    share = from_earlier / groups if groups else float("nan")
    return len(earlier), groups, from_earlier, share, len(earlier) / peers


def groups_by_peer(history: pd.DataFrame, task: str) -> Mapping[str, int]:
    """Peer -> external groups on a task trained on in these rounds."""
    counts = Counter[str]()
    for row in history["external_by_peer_task"]:
        counts.update({peer: said.get(task, 0) for peer, said in (row or {}).items()})
    return counts


def possible(metrics: pd.DataFrame) -> pd.Series[int]:
    """Run -> pairs of a node and a task that met in it: as many crossings as there can be."""
    return meetings(metrics).drop_duplicates([*RUN, "task", "node_id"]).groupby(RUN, sort=False).size()


def propagation(runs: pd.DataFrame, crossed: pd.DataFrame, learned: pd.DataFrame) -> pd.DataFrame:
    """Crossings and their learners in short: one row per configuration, in the order of the runs.

    Args:
        runs: one row per run, with the `possible` of it.
        crossed: from crossings.
        learned: from learners.

    Columns:
        crossings: of all its runs, without those from the start.
        possible: pairs of node and task that met in its runs.
        median_lag: rounds, over the crossings that came after another node's; NaN without any.
        learners: those of these that had trained on external groups before.
        runs: that have such learners. What follows has one value per run, the mean over its learners.
        share, chance: means over these runs; NaN without any.
        excess, excess_low, excess_high: mean of share - chance over these runs, with its 95 % interval.
    """
    names = pd.Index(runs["configuration"].unique(), name="configuration")
    sources = learned[learned["groups"] > 0]
    by_run = sources.groupby(["configuration", "seed"])[["share", "chance"]].mean()
    by_run["excess"] = by_run["share"] - by_run["chance"]
    by_configuration = by_run.groupby("configuration")
    table = pd.DataFrame(
        {
            "crossings": crossed[~crossed["from_start"]].groupby("configuration").size(),
            "possible": runs.groupby("configuration")["possible"].sum(),
            "median_lag": learned.groupby("configuration")["lag"].median(),
            "learners": sources.groupby("configuration").size(),
            "runs": by_configuration.size(),
            "share": by_configuration["share"].mean(),
            "chance": by_configuration["chance"].mean(),
        },
        index=names,
    )
    table = table.join(
        mean_by(by_run.reset_index(), ["configuration"], "excess").set_index("configuration").drop(columns="seeds")
    )
    counts = ["crossings", "possible", "learners", "runs"]
    return table.fillna(dict.fromkeys(counts, 0)).astype(dict.fromkeys(counts, "int64")).reset_index()
