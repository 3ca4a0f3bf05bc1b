"""Joins what a node says again and again, as one line and how often; pure.

    of one node   a  b  b  b  b  c     ─▶  a  b  "b x 3 more, last at ..."  c

Two events are the same where nothing but their time differs, and one follows on the other in that node's log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from swarm.records.stream import Event

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
class _Run:
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
        self._runs: dict[str, _Run] = {}
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
                self._runs[event.node] = _Run(digest, event._replace(line=b""), event.timestamp, event.timestamp)
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
    said = b"\0".join(
        (event.level.encode(), event.event.encode("utf-8", "replace"), _TIME.sub(b"", event.line, count=1))
    )
    return blake2b(said, digest_size=16).digest()
