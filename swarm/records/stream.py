"""The events of all nodes as one stream in the order of their timestamps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from swarm.records.growing import Growing, parse_line
from swarm.records.listing import nodes_with_logs
from swarm.store.run import Run
from swarm.wire import keys

LEVELS = ("debug", "info", "warning", "error", "critical")
METRICS_EVENT = "metrics"
"""What a metrics row is called among the events."""
UNREADABLE = "log.unreadable_line"
"""What a line that is no event is called: it was meant to say something."""


class Event(NamedTuple):
    """One line of a node's log."""

    timestamp: float
    node: str
    """The node whose folder it lies in, whatever the line says."""
    level: str
    event: str
    line: bytes


class Wanted(NamedTuple):
    """Which events to give."""

    nodes: frozenset[str] = frozenset()
    """Empty: all."""
    event: str = "*"
    """Pattern of the event's name as a shell would match it."""
    level: str = "debug"
    """The lowest level."""
    metrics: bool = False
    """Metrics rows too."""

    def takes(self, event: Event) -> bool:
        return LEVELS.index(event.level) >= LEVELS.index(self.level) and fnmatchcase(event.event, self.event)


ALL = Wanted()


class _EventLine(msgspec.Struct):
    timestamp: float = 0.0
    level: str = "info"
    event: Any = ""


class EventStream:
    """Reads the logs of all nodes on from where it was; nodes that join are found at the next reading."""

    def __init__(self, run: Run, wanted: Wanted = ALL) -> None:
        self._run = run
        self._wanted = wanted
        self._growing: dict[str, Growing] = {}

    def read(self) -> list[Event]:
        """All new events, ordered by time."""
        return sorted((event for source in self._sources() for event in source), key=_time)

    def read_last(self, count: int) -> list[Event]:
        """The last `count` of all new events, ordered by time; what is before them counts as read."""
        lasts = [deque(source, maxlen=count) for source in self._sources()]
        ordered = sorted((event for last in lasts for event in last), key=_time)
        return ordered[max(0, len(ordered) - count) :]

    def _sources(self) -> Iterator[Iterator[Event]]:
        for node in nodes_with_logs(self._run):
            if self._wanted.nodes and node not in self._wanted.nodes:
                continue
            yield self._new(node, keys.events(node), _event)
            if self._wanted.metrics:
                yield self._new(node, keys.metrics(node), _metrics_event)

    def _new(self, node: str, key: str, parse: Callable[[str, bytes], Event]) -> Iterator[Event]:
        last = 0.0
        for part in self._growing.setdefault(key, Growing(self._run.store, key)).look():
            for line in filter(bytes.strip, part.records):
                event = parse(node, line)
                last = event.timestamp or last  # a line without a time stays behind the one before it
                if self._wanted.takes(event):
                    yield event._replace(timestamp=last)


_time = attrgetter("timestamp")


def _event(node: str, line: bytes) -> Event:
    said = parse_line(line, _EventLine)
    if said is None:
        return Event(0.0, node, "warning", UNREADABLE, line)
    level = said.level if said.level in LEVELS else "info"
    return Event(said.timestamp, node, level, said.event if isinstance(said.event, str) else repr(said.event), line)


def _metrics_event(node: str, line: bytes) -> Event:
    said = parse_line(line, _EventLine)
    return Event(said.timestamp if said else 0.0, node, "info", METRICS_EVENT, line)
