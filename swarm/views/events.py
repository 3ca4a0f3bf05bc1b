"""Events as lines for a terminal; what a node says again and again is one line, and how often.

    of one node   a  b  b  b  b  c     ─▶  a  b  "b x 3 more, last at ..."  c

Two events are the same where nothing but their time differs, and one follows on the other in that node's log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from swarm.harmless import printable
from swarm.records.growing import parse_line
from swarm.records.stream import METRICS_EVENT, Event
from swarm.views.text import local_time

TOLD_EVERY = 60.0
"""Seconds, by the time of the events, after which it is said how often an event came that goes on coming."""
_TIME = re.compile(rb'"timestamp":[^,}]*,?')


class More(NamedTuple):
    """An event that came so many more times."""

    event: Event
    """The first, without its line."""
    times: int
    last: float
    """Unix seconds of the last one."""


@dataclass
class _Repeated:
    digest: bytes
    event: Event
    last: float
    told: float
    """When its first event, or how often it came, was said."""
    count: int = 0
    """Events that were not told of yet."""

    def tell(self) -> More:
        more = More(self.event, self.count, self.last)
        self.count, self.told = 0, self.last
        return more


class Repeats:
    """Counts repeated events of one stream, over any number of parts of it."""

    def __init__(self) -> None:
        self._runs: dict[str, _Repeated] = {}
        """Node -> what it said last."""

    def take(self, events: Iterable[Event]) -> list[Event | More]:
        """Returns the next events; how often one came is said at its end, when nothing more came of it, or now and
        then."""
        told: list[Event | More] = []
        grown: set[str] = set()
        for event in events:
            digest, run = _digest(event), self._runs.get(event.node)
            if run is None or run.digest != digest:
                told += [run.tell()] if run and run.count else []
                told.append(event)
                self._runs[event.node] = _Repeated(digest, event._replace(line=b""), event.timestamp, event.timestamp)
                continue
            run.count, run.last = run.count + 1, event.timestamp
            grown.add(event.node)
            if run.last - run.told >= TOLD_EVERY:
                told.append(run.tell())
        return told + [run.tell() for node, run in self._runs.items() if run.count and node not in grown]

    def rest(self) -> list[More]:
        """Returns what was not told of yet, in order of time."""
        return sorted((run.tell() for run in self._runs.values() if run.count), key=lambda more: more.last)


def _digest(event: Event) -> bytes:
    """Returns the same for events that differ in their time alone."""
    said = f"{event.level}\0{event.event}\0".encode("utf-8", "replace")
    return blake2b(said + _TIME.sub(b"", event.line, count=1), digest_size=16).digest()


_SHOWN_METRICS = (
    *("round", "my_reward", "answer_tag_rate", "reward_given_tagged", "cumulative_reward", "external_groups"),
    *("total_agents", "seconds_round"),
)
_HEAD_KEYS = frozenset({"timestamp", "level", "event", "node_id", "logger", "exception", "stack"})
_WIDE_KEYS = _HEAD_KEYS - {"logger"}


def render(events: Iterable[Event | More], *, wide: bool = False) -> Iterator[str]:
    """Yields each event as one readable line, an exception's traceback indented below it.

    Args:
        wide: with the date, the zone and the logger.
    """
    clock = _date if wide else _clock
    for event in events:
        if isinstance(event, More):
            yield f"{_head(event.event, clock)} x {event.times} more, last at {clock(event.last)}"
            continue
        words, details = in_words(event, _WIDE_KEYS if wide else _HEAD_KEYS)
        yield " ".join([_head(event, clock), *words])
        yield from (f"    {line}" for line in details)


def in_words(event: Event, without: Set[str] = _HEAD_KEYS) -> tuple[list[str], list[str]]:
    """Returns an event's fields as `key=value`, without time, node, level and name, and the lines of its traceback."""
    fields = _fields(event.line)
    if event.event == METRICS_EVENT and "event" not in fields:
        shown = {key: fields[key] for key in _SHOWN_METRICS if key in fields}
    else:
        shown = {key: value for key, value in fields.items() if key not in without}
    details = [line for text in ("stack", "exception") for line in str(fields.get(text) or "").splitlines()]
    return [f"{printable(key)}={_value(value)}" for key, value in shown.items()], [*map(printable, details)]


def _head(event: Event, clock: Callable[[float], str]) -> str:
    return " ".join([clock(event.timestamp), f"{event.node:12}", f"{event.level:8}", printable(event.event)])


def _date(timestamp: float) -> str:
    there = local_time(timestamp)
    return there.isoformat(timespec="milliseconds") if there else "????-??-??T??:??:??.???+??:??"


def _clock(timestamp: float) -> str:
    there = local_time(timestamp)
    return there.strftime("%H:%M:%S.%f")[:-3] if there else "??:??:??.???"


def _fields(line: bytes) -> dict[str, Any]:
    fields = parse_line(line, dict[str, Any])
    return {"line": line.decode("utf-8", "replace")} if fields is None else fields


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if text.isprintable() and " " not in text and text else repr(text)
