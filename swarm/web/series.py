"""Figures by round as columns that a browser draws: all of them once, and then what is new. Pure.

    History ─▶ whole(columns)   base64 of 32-bit numbers, node by node; NaN where there is no figure
            ─▶ news(mark)       the rounds that are new or changed since a mark, as numbers, and the next mark

Of a round of several stages the last one is drawn; `earned` is the sum over its stages. What is drawn by round is
drawn of at most MOST_NODES nodes, those with the most rows.
"""

from __future__ import annotations

import math
import sys
from array import array
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from swarm.records.history import COLUMNS, NAN, History, NodeHistory
from swarm.web.harmless import cut

MOST_NODES = 128
MOST_NEW = 400
"""Rounds of one node that are told as new; where more are, the whole is to be asked for again."""
LONGEST_MODEL = 80
"""Characters of the name of a model, or of a role."""
Mark = Mapping[str, tuple[int, int]]
"""Node -> epoch and version of its history, as somebody has seen it."""
Values = Sequence[float]


def _requests(node: NodeHistory) -> Values:
    columns = [node.column(name) for name in ("store_writes", "store_lists", "store_reads")]
    return [sum(figures) for figures in zip(*columns, strict=True)]


def _memory_share(node: NodeHistory) -> Values:
    """Returns by row the share of the device's memory that is in use; NaN where it is not known."""
    free, total = node.column("memory_free"), node.column("memory_total")
    return [1 - f / t if t > 0 and 0 <= f <= t else NAN for f, t in zip(free, total, strict=True)]


def _earned(node: NodeHistory) -> Values:
    """Returns the round's sum of rewards over its stages, at the place of each."""
    rewards, of_round = node.column("my_reward"), dict[int, float]()
    for round_, reward in zip(node.rounds, rewards, strict=True):
        if not math.isnan(reward):
            of_round[round_] = of_round.get(round_, 0.0) + reward
    return [of_round.get(round_, NAN) for round_ in node.rounds]


_COMPUTED: Mapping[str, Callable[[NodeHistory], Values]] = {
    "earned": _earned,
    "requests": _requests,
    "memory_share": _memory_share,
}
DRAWN = (
    *("my_reward", "answer_tag_rate", "reward_given_tagged", "finished_rate", "zero_advantage_local", "staleness"),
    *("local_groups", "external_wanted", "external_groups", "executor_busy", "seconds_round", "seconds_generate"),
    *("seconds_gather", "seconds_train", "bytes_published", "bytes_fetched", "endpoint_requests", *_COMPUTED),
)
"""Columns that the page draws: what a round is told of."""
_UNKNOWN = {*DRAWN} - {*COLUMNS} - {*_COMPUTED}
assert not _UNKNOWN, _UNKNOWN


def values_of(node: NodeHistory, column: str) -> Values:
    """Returns one of DRAWN, by place."""
    return _COMPUTED[column](node) if column in _COMPUTED else node.column(column)


def drawn_nodes(history: History) -> list[str]:
    """Returns nodes with rows, by name; of too many those with the most."""
    nodes = sorted((node for node in history if len(history[node])), key=lambda node: (-len(history[node]), node))
    return sorted(nodes[:MOST_NODES])


def mark_of(history: History) -> dict[str, tuple[int, int]]:
    """Returns the mark of somebody who has seen all of the history."""
    return {node: (history[node].epoch, history[node].version) for node in drawn_nodes(history)}


def whole(history: History, columns: Iterable[str]) -> dict[str, Any]:
    """Returns the document of columns of all nodes."""
    asked = [name for name in columns if name in DRAWN]
    nodes = {node: _node(history[node], asked) for node in drawn_nodes(history)}
    return {"nodes": nodes, "left_out": max(0, sum(map(bool, history.values())) - len(nodes))}


def _node(node: NodeHistory, columns: Iterable[str]) -> dict[str, Any]:
    places = node.one_per_round()
    rounds = [node.rounds[place] for place in places]
    values = {name: values_of(node, name) for name in columns}
    return {
        "model": cut(node.model, LONGEST_MODEL),
        "role": cut(node.role, LONGEST_MODEL),
        "rounds": packed(array("i", [min(round_, 2**31 - 1) for round_ in rounds])),
        "columns": {name: packed(array("f", [of[place] for place in places])) for name, of in values.items()},
    }


def packed(numbers: array[Any]) -> str:
    """Base64 of 32-bit numbers, little-endian."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return b64encode(numbers.tobytes()).decode()


def news(history: History, seen: Mark) -> dict[str, Any]:
    """Returns what has come since a mark: by node the rounds and all of DRAWN.

    A node whose file is another one than before, and one of which too much is new, is to be asked for as a whole.
    """
    found, again = dict[str, Any](), list[str]()
    for node in drawn_nodes(history):
        of_node, (epoch, version) = history[node], seen.get(node, (0, 0))
        if (of_node.epoch, of_node.version) == (epoch, version):
            continue
        new = of_node.since(version) if epoch in (of_node.epoch, 0) else []
        if not new or len(new) > MOST_NEW:
            again.append(node)
        else:
            found[node] = _news(of_node, new)
    return {"nodes": found, "again": again}


def _news(node: NodeHistory, places: Sequence[int]) -> dict[str, Any]:
    changed = {node.rounds[place] for place in places}
    last = {node.rounds[place]: place for place in node.one_per_round() if node.rounds[place] in changed}
    rounds = sorted(last)
    columns = {name: values_of(node, name) for name in DRAWN}
    return {
        "model": cut(node.model, LONGEST_MODEL),
        "role": cut(node.role, LONGEST_MODEL),
        "rounds": rounds,
        "columns": {name: [_number(values[last[r]]) for r in rounds] for name, values in columns.items()},
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.7g}")
