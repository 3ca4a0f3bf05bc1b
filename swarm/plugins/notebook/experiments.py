"""Plain dictionaries and pandas frames of experiments, by the names that rl-swarm's have.

Each takes the shared folder and the name of an experiment, reads it through swarm.records as every view does, works
during a run and after a crash, and takes runs that rl-swarm made. Nothing is written into an experiment. Rewards are
means per completion, in [0, 1]; what nobody recorded is None, or missing in a frame.

Unless a function says otherwise, an experiment that is not there raises ExperimentError, which names those that are;
one without a row yet gives an empty frame, no rewards and round 0. Frames need the extra `analysis`, and
raise ConfigError without it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

import msgspec

from swarm.config import Settings
from swarm.errors import ConfigError, SwarmError
from swarm.node.process.host import this_process
from swarm.records.listing import nodes_with_logs, saved_rounds
from swarm.records.liveness import is_alive
from swarm.records.made_by import as_ours
from swarm.records.reader import RunSnapshot, snapshot
from swarm.records.stream import LEVELS, EventStream, WantedEvents
from swarm.store.folder.publish import publish_own
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.views import events
from swarm.views.summary import summarise_run
from swarm.views.tables import frames

if TYPE_CHECKING:
    from pandas import DataFrame

Folder = Path | str
STATISTICS = ("mean_reward", "std_reward", "min_reward", "max_reward", "median_reward", "my_rank", "percentile")
"""Columns that get_experiment_metrics adds: where a node's reward stands among those of its round."""


class ExperimentInfo(TypedDict):
    """One experiment of a shared folder."""

    name: str
    path: str
    round: int
    """Rounds behind it."""
    stage: int
    max_rounds: int | None
    """None while nobody has said."""
    finished: bool
    created_at: float | None
    """Unix seconds."""
    num_peers: int
    """Registered, the coordinator included."""
    num_checkpoints: int
    """Rounds with a checkpoint of any node."""
    made_by: str
    """Another program that made it, such as `rl-swarm`; empty: this one."""
    problem: str
    """Why it cannot be read; empty if it can."""


class ExperimentStatus(TypedDict):
    """Says where an experiment stands."""

    experiment_name: str
    checked_at: float
    """Unix seconds."""
    current_round: int
    """The open round, or the number of rounds done where none is open."""
    current_stage: int
    max_rounds: int | None
    finished: bool
    last_updated: float | None
    """When any node last wrote, Unix seconds; None: never."""
    active_peers: int
    """Registered nodes that are alive."""
    num_active_peers: int
    """The same, by its other name."""
    peer_ids: list[str]
    """All that registered."""
    latest_checkpoint: int | None
    """Rounds behind the newest one."""
    cumulative_rewards: NotRequired[dict[str, float]]
    """Node -> sum of its mean rewards; missing, as the next one, while no reward is on record."""
    total_cumulative_reward: NotRequired[float]
    """Their sum, the SAPO paper's figure. Where rl-swarm made the run, over the rounds whose reward is known."""
    total_metric_entries: int
    """Pairs of a node and a round."""
    made_by: str


class LatestProgress(TypedDict):
    """One node."""

    latest_event: str | None
    latest_round: int | None
    """The last one that it has done."""
    elapsed_seconds: float | None
    """From its registration to its last event."""
    last_update: float | None
    """Its last event, Unix seconds."""


class ExperimentProgress(TypedDict):
    """Holds what each node did last."""

    experiment: str
    nodes: dict[str, LatestProgress]
    timestamp: float
    """Unix seconds."""


def list_experiments(path: Folder) -> list[ExperimentInfo]:
    """Returns all experiments of a shared folder by name; none where it is not there.

    Raises:
        StoreError: it cannot be listed.
    """
    place = open_place(path)
    return [_info(path, name) for name in place.experiments()]


def get_experiment_metrics(path: Folder, name: str, aggregate_by_round: bool = False) -> DataFrame:
    """Returns one row per node, round and stage, by round and node: the columns of docs/metrics.md, and STATISTICS.

    `mean_reward`, `std_reward` (of the population), `min_reward`, `max_reward` and `median_reward` are over the nodes
    with a row of that round and stage; `my_rank` is 1 for the best, and the same for equal ones; `percentile` is the
    share of these nodes that earned less, 0 to 100. Columns `adaptive_*` are there only if an adaptive rule was on.
    Rows that measure nothing, as an evaluator's, are left out.

    Args:
        path: the shared folder.
        name: of the experiment.
        aggregate_by_round: only node_id, round, my_reward, timestamp and adaptive_*, by node and round: of a
            round of several stages its last one.
    """
    metrics = frames.get_experiment_metrics(path, name)
    measures = metrics["role"].isna() | (metrics["local_groups"] > 0)
    metrics = _with_statistics(metrics[measures].reset_index(drop=True))
    adaptive = [column for column in metrics.columns if column.startswith("adaptive_")]
    metrics = metrics.drop(columns=[column for column in adaptive if not metrics[column].notna().any()])
    if not aggregate_by_round:
        return metrics
    kept = ["node_id", "round", "my_reward", "timestamp", *(column for column in adaptive if column in metrics.columns)]
    of_rounds = metrics.drop_duplicates(["node_id", "round"], keep="last")  # stages are in their order
    return of_rounds[kept].sort_values(["node_id", "round"], ignore_index=True)


def get_cumulative_rewards(path: Folder, name: str) -> dict[str, float]:
    """Returns node -> sum of its mean rewards so far, nodes with any row; each round counts once."""
    return _cumulative(snapshot(_open(path, name)))


def get_experiment_status(path: Folder, name: str) -> ExperimentStatus:
    """Reads where an experiment stands by now."""
    now, wall = snapshot(_open(path, name)), time.time()
    here, timeout = this_process(), Settings().cadence.liveness_timeout
    written = [one.last.timestamp for one in now.progress.values() if one.last]
    written += [peer.last_seen for peer in now.peers.values()]
    alive = sum(is_alive(peer, wall, timeout, here) for peer in now.peers.values())
    status = ExperimentStatus(
        experiment_name=name,
        checked_at=wall,
        current_round=now.state.round if now.state else now.rounds_done,
        current_stage=now.state.stage if now.state else 0,
        max_rounds=now.rounds_expected,
        finished=now.finished is not None,
        last_updated=max([*written, *([now.state.updated_at] if now.state else [])], default=None),
        active_peers=alive,
        num_active_peers=alive,
        peer_ids=sorted(now.peers),
        latest_checkpoint=max((max(rounds) for rounds in saved_rounds(now.run).values()), default=None),
        total_metric_entries=sum(one.rounds_with_rows for one in now.progress.values()),
        made_by=now.made_by,
    )
    if rewards := _cumulative(now):
        status["cumulative_rewards"], status["total_cumulative_reward"] = rewards, sum(rewards.values())
    return status


def get_experiment_progress(path: Folder, name: str) -> ExperimentProgress:
    """Returns what each node did last, by its own log."""
    now = snapshot(_open(path, name))
    nodes = {node: _progress(now, node) for node in now.nodes}
    return ExperimentProgress(experiment=name, nodes=nodes, timestamp=time.time())


def compare_experiments(path: Folder, names: Sequence[str]) -> DataFrame:
    """Returns one row per experiment, in the order of `names`; those without a row of metrics have NaN for rewards.

    Columns:
        experiment, made_by, current_round; num_nodes: those that have rows.
        total_cumulative_reward: sum of my_reward over nodes and rounds.
        avg_per_node: the same per node that has rows.
        mean_reward: per completion, over all rows.
        common_rounds: the first rounds that all of them have.
        common_cumulative_reward: the sum over these, which runs of different length are compared by.
    """
    tables = {name: frames.get_experiment_metrics(path, name) for name in names}
    last = [table["round"].max() for table in tables.values() if len(table)]
    common = int(min(last)) + 1 if last and len(last) == len(tables) else 0
    rows = [_compared(snapshot(_open(path, name)), table, common) for name, table in tables.items()]
    from pandas import DataFrame

    return DataFrame(rows, columns=list(_COMPARED))


def export_experiment_summary(path: Folder, name: str, output_path: Folder | None = None) -> dict[str, Any]:
    """Returns the status, what the experiment was begun with, and the figures of `swarm summary`, as plain values.

    Args:
        path: the shared folder.
        name: of the experiment.
        output_path: a JSON file to write it to, replaced if it is there; None: nothing is written.

    Raises:
        StoreError: the file cannot be written.
    """
    run = _open(path, name)
    status, now = get_experiment_status(path, name), snapshot(run)
    found = {
        "experiment_name": name,
        "generated_at": time.time(),
        "final_state": status,
        "config": now.experiment.identity if now.experiment else {},
        "metrics_summary": {
            "total_rounds": now.rounds_done,
            "total_entries": status["total_metric_entries"],
            "nodes": sorted(_cumulative(now)),
        },
        "summary": msgspec.to_builtins(summarise_run(run)),
    }
    if output_path is not None:
        publish_own(Path(output_path), msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    return found


def tail_logs(
    path: Folder, name: str, node: str | Collection[str] = (), lines: int = 20, level: str = "info"
) -> list[str]:
    """Returns the last events of all nodes as lines of text, in the order of time, as `swarm logs` shows them.

    Args:
        path: the shared folder.
        name: of the experiment.
        node: only this node, or these.
        lines: how many events at most.
        level: the lowest level: `debug`, `info`, `warning`, `error` or `critical`.

    Raises:
        ConfigError: another level, a negative number of lines, or a node that has no logs.
    """
    run, asked = _open(path, name), {node} if isinstance(node, str) else {*node}
    if level not in LEVELS or lines < 0:
        raise ConfigError(f"expected a level of {', '.join(LEVELS)} and lines >= 0, got {level!r} and {lines}")
    if unknown := asked - {*nodes_with_logs(run)}:
        raise ConfigError(f"no such node has logs in {run.store.describe()}: {', '.join(sorted(unknown))}")
    wanted = WantedEvents(frozenset(asked), level=level)
    return [*events.render(EventStream(run, wanted).read_last(lines))]


def _open(path: Folder, name: str) -> Run:
    return as_ours(open_place(path).open(name))


def _info(path: Folder, name: str) -> ExperimentInfo:
    now: RunSnapshot | None = None
    saved, problem = set[int](), "it is a link" if open_place(path).is_link(name) else ""
    try:
        if not problem:
            now = snapshot(_open(path, name))
            saved = {number for rounds in saved_rounds(now.run).values() for number in rounds}
    except SwarmError as error:
        problem = str(error)
    return ExperimentInfo(
        name=name,
        path=os.fspath(Path(path) / "experiments" / name),
        round=now.rounds_done if now else 0,
        stage=now.state.stage if now and now.state else 0,
        max_rounds=now.rounds_expected if now else None,
        finished=bool(now and now.finished),
        created_at=now.experiment.created_at if now and now.experiment else None,
        num_peers=len(now.peers) if now else 0,
        num_checkpoints=len(saved),
        made_by=now.made_by if now else "",
        problem=problem or (now.problem if now else ""),
    )


def _cumulative(now: RunSnapshot) -> dict[str, float]:
    return {node: one.cumulative_reward for node, one in sorted(now.progress.items()) if one.rounds_with_rows}


def _progress(now: RunSnapshot, node: str) -> LatestProgress:
    last = next(iter(EventStream(now.run, WantedEvents(frozenset({node}))).read_last(1)), None)
    peer, rows = now.peers.get(node), now.progress[node].last if node in now.progress else None
    return LatestProgress(
        latest_event=last.event if last else None,
        latest_round=rows.round if rows else None,
        elapsed_seconds=max(0.0, last.timestamp - peer.registered_at) if last and peer else None,
        last_update=last.timestamp if last else None,
    )


def _with_statistics(metrics: DataFrame) -> DataFrame:
    """Returns the metrics with STATISTICS behind them."""
    rewards = metrics.groupby(["round", "stage"])["my_reward"]
    below = rewards.rank(method="min") - 1
    return metrics.assign(
        mean_reward=rewards.transform("mean"),
        std_reward=rewards.transform("std", ddof=0),
        min_reward=rewards.transform("min"),
        max_reward=rewards.transform("max"),
        median_reward=rewards.transform("median"),
        my_rank=rewards.rank(method="min", ascending=False).astype("int64"),
        percentile=100 * below / rewards.transform("size"),
    )


_COMPARED = (
    *("experiment", "made_by", "current_round", "num_nodes", "total_cumulative_reward", "avg_per_node", "mean_reward"),
    *("common_rounds", "common_cumulative_reward"),
)


def _compared(now: RunSnapshot, metrics: DataFrame, common: int) -> dict[str, Any]:
    """Returns a row of compare_experiments."""
    rewards, nodes = metrics["my_reward"], metrics["node_id"].nunique()
    total = rewards.sum(min_count=1)
    return {
        "experiment": now.run.experiment,
        "made_by": now.made_by,
        "current_round": now.rounds_done,
        "num_nodes": nodes,
        "total_cumulative_reward": total,
        "avg_per_node": total / nodes if nodes else total,
        "mean_reward": rewards.mean(),
        "common_rounds": common,
        "common_cumulative_reward": rewards[metrics["round"] < common].sum(min_count=1),
    }
