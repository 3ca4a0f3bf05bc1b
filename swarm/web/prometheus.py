"""A run as metrics in Prometheus's text format, version 0.0.4. Pure.

Figures of a node are those of its last row; what only grows is called `_total`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from swarm.records.history import History, NodeHistory

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_NODES = 200


class _Gauge(NamedTuple):
    name: str
    column: str
    help: str


_OF_LAST_ROW = (
    _Gauge("swarm_node_reward", "my_reward", "Mean reward per completion of the last round."),
    _Gauge("swarm_node_tagged_ratio", "answer_tag_rate", "Share of completions with a closed answer."),
    _Gauge("swarm_node_reward_given_tagged", "reward_given_tagged", "Mean reward of completions with a closed answer."),
    _Gauge("swarm_node_finished_ratio", "finished_rate", "Share of completions that the model ended itself."),
    _Gauge("swarm_node_zero_advantage_ratio", "zero_advantage_local", "Share of own groups without a signal."),
    _Gauge("swarm_node_executor_busy_ratio", "executor_busy", "Share of the time in which the node computed."),
    _Gauge("swarm_node_round_seconds", "seconds_round", "Duration of the last round."),
    _Gauge("swarm_node_local_groups", "local_groups", "Own groups of the last round (I)."),
    _Gauge("swarm_node_external_groups_wanted", "external_wanted", "Peers' groups wanted in the last round (J)."),
    _Gauge("swarm_node_external_groups", "external_groups", "Peers' groups trained on in the last round."),
    _Gauge("swarm_node_staleness_rounds", "staleness", "Mean age of the external groups of the last round."),
    _Gauge("swarm_node_memory_allocated_bytes", "memory_allocated", "Memory of the device that the process holds."),
)
_TOTALS = (
    _Gauge("swarm_node_published_bytes_total", "bytes_published", "Bytes of the node's own rollout files."),
    _Gauge("swarm_node_fetched_bytes_total", "bytes_fetched", "Bytes of peers' rollout files."),
    _Gauge("swarm_node_generated_tokens_total", "tokens_generated", "Tokens sampled for own groups."),
    _Gauge("swarm_node_trained_tokens_total", "tokens_trained", "Tokens that took part in an update."),
    _Gauge("swarm_node_reward_total", "my_reward", "Cumulative reward."),
)


def exposition(experiment: str, standing: Mapping[str, Any], history: History) -> str:
    """Returns the text.

    Args:
        standing: as `standing_document` has it.
    """
    nodes = {node: of_node for node, of_node in sorted(history.items()) if len(of_node)}
    shown = dict([*nodes.items()][:MOST_NODES])
    lines = [*_of_run(experiment, standing)]
    for gauge in _OF_LAST_ROW:
        lines += _family(gauge, "gauge", experiment, {node: _last(of, gauge.column) for node, of in shown.items()})
    for gauge in _TOTALS:
        lines += _family(gauge, "counter", experiment, {node: _sum(of, gauge.column) for node, of in shown.items()})
    return "\n".join([*lines, ""])


def _of_run(experiment: str, standing: Mapping[str, Any]) -> Iterable[str]:
    live = sum(1 for node in standing.get("nodes", ()) if node["live"])
    figures = {
        "swarm_rounds_done": ("Rounds behind the run.", standing.get("rounds_done")),
        "swarm_rounds_expected": ("Rounds that there will be.", standing.get("max_rounds")),
        "swarm_finished": ("1: the run is over.", int(bool(standing.get("finished")))),
        "swarm_nodes_live": ("Nodes that are alive.", live),
        "swarm_hints": ("Things that make nodes useless although nothing fails.", len(standing.get("hints", ()))),
    }
    for name, (help_, value) in figures.items():
        if value is not None:
            yield from _head(name, "gauge", help_)
            yield f'{name}{{experiment="{escaped(experiment)}"}} {value}'


def _family(gauge: _Gauge, kind: str, experiment: str, values: Mapping[str, float]) -> list[str]:
    samples = [
        f'{gauge.name}{{experiment="{escaped(experiment)}",node="{escaped(node)}"}} {value:.10g}'
        for node, value in values.items()
        if not math.isnan(value)
    ]
    return [*_head(gauge.name, kind, gauge.help), *samples] if samples else []


def _head(name: str, kind: str, help_: str) -> list[str]:
    return [f"# HELP {name} {help_}", f"# TYPE {name} {kind}"]


def escaped(label: str) -> str:
    """Returns a label's value as the format wants it."""
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _last(node: NodeHistory, column: str) -> float:
    return math.nan if node.last_place is None else node.figure(column, node.last_place)


def _sum(node: NodeHistory, column: str) -> float:
    return sum(value for value in node.column(column) if not math.isnan(value))
