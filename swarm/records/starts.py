"""Reads what nodes were started with, from `logs/{node}/starts.jsonl`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from swarm.config import variable
from swarm.config.settings import FIELDS
from swarm.harmless import quoted
from swarm.records.growing import lines_of, parse_line
from swarm.records.listing import nodes_with_logs
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.messages import NodeStart

WHERE = ("path", "experiment", "role", "node_id", "key_folder", "log_level")
"""Settings that say where a node is and how it speaks, not what it does."""


def last_start(run: Run, node: str) -> NodeStart | None:
    """Returns the newest start that a node's record holds; None where it holds none that can be read.

    Raises:
        StoreError: the place cannot be read.
    """
    return next(iter(deque(starts_of(run, node), maxlen=1)), None)


def starts_of(run: Run, node: str) -> Iterator[NodeStart]:
    """Yields the starts in a node's record that can be read, the oldest first, up to the bound of a look."""
    for line in lines_of(run.store, keys.starts(node)):
        start = parse_line(line, NodeStart)
        if start is not None and (start.node_id, start.experiment) == (node, run.experiment):
            yield start


def last_starts(run: Run) -> list[NodeStart]:
    """Reads the last start of every node that has one, in the order of their names, `w-2` before `w-10`.

    Raises:
        StoreError: the place cannot be read.
    """
    nodes = sorted(nodes_with_logs(run), key=lambda node: (len(node), node))
    return [start for node in nodes if (start := last_start(run, node))]


def changed_settings(before: NodeStart, now: Mapping[str, Any]) -> list[str]:
    """Returns one text per setting that has another value than at an earlier start; those that only one of them knows,
    and those that say where a node is, do not count."""
    known = [name for name in now if name in FIELDS and name in before.settings and name not in WHERE]
    return [
        f"{variable(name)} was {quoted(before.settings[name])}, now {quoted(now[name])}"
        for name in known
        if before.settings[name] != now[name]
    ]
