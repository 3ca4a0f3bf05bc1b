"""The events of all nodes as one stream in the order of their timestamps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from fnmatch import fnmatchcase
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from swarm.records.read import Tail, nodes_with_logs, parse_line
from swarm.views.text import printable
from swarm.wire.layout import Layout

LEVELS = ("debug", "info", "warning", "error", "critical")
METRICS_EVENT = "metrics"
"""What a metrics row is called among the events."""
_SHOWN_METRICS = ("round", "my_reward", "cumulative_reward", "external_groups", "total_agents", "seconds_round")
_HEAD_KEYS = frozenset({"timestamp", "level", "event", "node_id", "logger", "exception", "stack"})


class Event(NamedTuple):
    """One line of a node's log."""

    timestamp: float
    node: str
    """The node whose folder it lies in, whatever the line says."""
    level: str
    event: str
    line: bytes


class Wanted(NamedTuple):
    """Which events to show."""

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


class _EventLine(msgspec.Struct):
    timestamp: float = 0.0
    level: str = "info"
    event: Any = ""


class EventStream:
    """Reads the logs of all nodes on from where it was; nodes that join are found at the next reading."""

    def __init__(self, layout: Layout, wanted: Wanted) -> None:
        self._layout = layout
        self._wanted = wanted
        self._tails: dict[Path, Tail] = {}

    def read(self) -> list[Event]:
        """All new events, ordered by time."""
        return sorted((event for source in self._sources() for event in source), key=_time)

    def read_last(self, count: int) -> list[Event]:
        """The last `count` of all new events, ordered by time; what is before them counts as read."""
        lasts = [deque(source, maxlen=count) for source in self._sources()]
        ordered = sorted((event for last in lasts for event in last), key=_time)
        return ordered[max(0, len(ordered) - count) :]

    def _sources(self) -> Iterator[Iterator[Event]]:
        for node in nodes_with_logs(self._layout):
            if self._wanted.nodes and node not in self._wanted.nodes:
                continue
            yield self._new(node, self._layout.events_file(node), _event)
            if self._wanted.metrics:
                yield self._new(node, self._layout.metrics_file(node), _metrics_event)

    def _new(self, node: str, file: Path, parse: Callable[[str, bytes], Event]) -> Iterator[Event]:
        last = 0.0
        for line in self._tails.setdefault(file, Tail(file)).read():
            if not line.strip():
                continue
            event = parse(node, line)
            last = event.timestamp or last  # a line without a time stays behind the one before it
            if self._wanted.takes(event):
                yield event._replace(timestamp=last)


_time = attrgetter("timestamp")


def _event(node: str, line: bytes) -> Event:
    """A line that is no event is shown all the same, as a warning: it was meant to say something."""
    said = parse_line(line, _EventLine)
    if said is None:
        return Event(0.0, node, "warning", "log.unreadable_line", line)
    level = said.level if said.level in LEVELS else "info"
    return Event(said.timestamp, node, level, said.event if isinstance(said.event, str) else repr(said.event), line)


def _metrics_event(node: str, line: bytes) -> Event:
    said = parse_line(line, _EventLine)
    return Event(said.timestamp if said else 0.0, node, "info", METRICS_EVENT, line)


def render(events: Iterable[Event]) -> Iterator[str]:
    """Each event as one readable line, an exception's traceback indented below it."""
    for event in events:
        fields = _fields(event.line)
        if event.event == METRICS_EVENT and "event" not in fields:
            shown = {key: fields[key] for key in _SHOWN_METRICS if key in fields}
        else:
            shown = {key: value for key, value in fields.items() if key not in _HEAD_KEYS}
        words = [f"{printable(key)}={_value(value)}" for key, value in shown.items()]
        yield " ".join(
            [_clock(event.timestamp), f"{event.node:12}", f"{event.level:8}", printable(event.event), *words]
        )
        for text in ("stack", "exception"):
            yield from (f"    {printable(line)}" for line in str(fields.get(text) or "").splitlines())


def _clock(timestamp: float) -> str:
    try:
        return datetime.fromtimestamp(timestamp).strftime("%H:%M:%S.%f")[:-3]
    except (ValueError, OverflowError, OSError):
        return "??:??:??.???"


def _fields(line: bytes) -> dict[str, Any]:
    try:
        fields = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {"line": line.decode("utf-8", "replace")}
    return fields


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if text.isprintable() and " " not in text and text else repr(text)
