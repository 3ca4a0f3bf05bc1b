"""The events of all nodes as one stream in the order of their timestamps.

What is held at once does not grow with what strangers log: of one look a part of each log, of a search for the last
events those that were found so far, and of a line no more than LARGEST_EVENT.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from swarm.records import growing
from swarm.records.growing import LONGEST_NAME, MOST_READS, GrowingLines, parse_line
from swarm.records.listing import nodes_with_logs
from swarm.store.run import Run
from swarm.wire import keys

LEVELS = ("debug", "info", "warning", "error", "critical")
METRICS_EVENT = "metrics"
"""What a metrics row is called among the events."""
UNREADABLE = "log.unreadable_line"
"""What a line that is no event is called: it was meant to say something."""
UNREAD = "log.unread"
"""What stands for the rest of a file that is no log."""
LARGEST_EVENT = 64 * 1024
"""Bytes of a line that are held; a longer one is left out, but for its time, level, name and length."""
MOST_PARSED = 200_000
"""Lines of all logs together that are parsed of each part that is read, to find the last events: some second."""
LEAST_PARSED = 1000
"""Lines of one log that are parsed at least."""
SHORTEST_EVENT = 40
"""Bytes of a line that has a time, a level and a name."""
END = 256 * 1024
"""Bytes of a log in which its last events are looked for at first: some 1,000 of them."""
LOOKED_BACK = 8
"""Lines that are looked at for the time of one that has none."""
READS_FOR_LAST = 64
"""Reads of one log in search of its last events, 512 MiB together: 240,000 rounds."""
AT_ONCE, LEAST_AT_ONCE = 512 * 1024, 1024
"""Bytes of all logs together that are new to one look of who follows them, and of one log; the next look goes on."""


class Event(NamedTuple):
    """One line of a node's log."""

    timestamp: float
    node: str
    """The node whose folder it lies in, whatever the line says."""
    level: str
    event: str
    line: bytes
    """At most LARGEST_EVENT bytes."""


class WantedEvents(NamedTuple):
    """Says which events to give."""

    nodes: frozenset[str] = frozenset()
    """Empty: all."""
    event: str = "*"
    """Pattern of the event's name as a shell would match it."""
    level: str = "debug"
    """The lowest level."""
    metrics: bool = False
    """Metrics rows too."""
    since: float = 0.0
    """Unix seconds; none earlier."""

    @property
    def words(self) -> re.Pattern[bytes]:
        """Returns a pattern that stands in every event that is wanted, as nodes write it."""
        if (lowest := LEVELS.index(self.level)) > LEVELS.index("info"):  # what names no level is an info
            return re.compile("|".join(LEVELS[lowest:]).encode())
        pieces = [] if "[" in self.event else re.split(r"[*?]", self.event)
        return re.compile(re.escape(max(pieces, key=len, default="").encode()))

    def takes(self, event: Event) -> bool:
        return LEVELS.index(event.level) >= LEVELS.index(self.level) and fnmatchcase(event.event, self.event)


ALL = WantedEvents()


class _EventLine(msgspec.Struct):
    timestamp: float = 0.0
    level: str = "info"
    event: Any = ""


class EventStream:
    """Reads the logs of all nodes on from where it was; nodes that join are found at the next reading."""

    def __init__(self, run: Run, wanted: WantedEvents = ALL) -> None:
        self._run = run
        self._wanted = wanted
        self._growing: dict[str, GrowingLines] = {}
        self._timeless = Counter[str]()
        self.unseen = Counter[str]()
        """Node -> lines that read_last has not looked into, for there were too many."""

    def read(self) -> list[Event]:
        """Returns all new events, ordered by time."""
        return self._in_order(event for source in self._sources() for event in self._new(source, source.parts()))

    def read_on(self) -> list[Event]:
        """New events, ordered by time: of each log a part, and the rest with the next call."""
        sources = list(self._sources())
        limit = max(LEAST_AT_ONCE, AT_ONCE // max(1, len(sources)))
        return self._in_order(event for of in sources for event in self._new(of, of.parts(1, limit)))

    def read_last(self, count: int, most_parsed: int = 0) -> list[Event]:
        """Returns the last `count` of all new events, ordered by time; what is before them counts as read.

        Args:
            most_parsed: lines of each part that is read; 0: MOST_PARSED. Of one log at least LEAST_PARSED.
        """
        last, sources = list[Event](), list(self._sources())
        share = max(LEAST_PARSED, (most_parsed or MOST_PARSED) // max(1, len(sources)))
        for source in sources:
            found, unseen = _last_of(source, self._wanted, count, share)
            last = sorted([*last, *found], key=_time)
            del last[: max(0, len(last) - count)]
            if unseen:
                self.unseen[source.node] += unseen
        return self._in_order(last)

    def _in_order(self, events: Iterable[Event]) -> list[Event]:
        return sorted((event for event in events if event.timestamp >= self._wanted.since), key=_time)

    def _sources(self) -> Iterator[_Source]:
        for node in nodes_with_logs(self._run):
            if self._wanted.nodes and node not in self._wanted.nodes:
                continue
            yield self._source(node, keys.events(node), _event)
            if self._wanted.metrics:
                yield self._source(node, keys.metrics(node), _metrics_event)

    def _source(self, node: str, key: str, parse: Callable[[str, bytes], Event]) -> _Source:
        return _Source(node, self._growing.setdefault(key, GrowingLines(self._run.store, key)), parse)

    def _new(self, source: _Source, parts: Iterator[list[bytes]]) -> Iterator[Event]:
        last = 0.0
        for lines in parts:
            for line in filter(bytes.strip, lines):
                if self._timeless[source.node] > growing.MOST_JUNK:
                    break
                event = source.parse(source.node, line)
                if not event.timestamp and self._is_one_too_many(source):
                    event = _no_log(source.node)
                last = event.timestamp or last  # a line without a time stays behind the one before it
                if self._wanted.takes(event):
                    yield event._replace(timestamp=last)

    def _is_one_too_many(self, source: _Source) -> bool:
        self._timeless[source.node] += 1
        return self._timeless[source.node] > growing.MOST_JUNK


class _Source(NamedTuple):
    """A log that is read on."""

    node: str
    growing: GrowingLines
    parse: Callable[[str, bytes], Event]

    def parts(self, most_reads: int = MOST_READS, limit: int = 0) -> Iterator[list[bytes]]:
        """The new lines; of a part of very many lines those that are long enough for an event."""
        return (_long_enough(part.records) for part in self.growing.look(most_reads, limit))


def _last_of(source: _Source, wanted: WantedEvents, count: int, share: int) -> tuple[list[Event], int]:
    """Returns the last events of one log that are wanted, and how many lines were not looked into: there were too many.

    The end of the log is searched, and all of it where that does not hold as many events, each with a time of its own.

    Args:
        share: lines that are parsed of each part.
    """
    if source.growing.is_new:
        end = source.growing.look_at_end(END)
        found, unseen = _last_in([_long_enough(end.records)], source, wanted, count, share)
        is_full = len(found) == count and not unseen and all(event.timestamp for event in found)
        if is_full or not end.cut:
            return found, unseen
        source.growing.begin_again()
    return _last_in(source.parts(READS_FOR_LAST), source, wanted, count, share)


def _last_in(
    parts: Iterable[list[bytes]], source: _Source, wanted: WantedEvents, count: int, share: int
) -> tuple[list[Event], int]:
    """Returns the same of the parts of a log, which come in order."""
    events, unseen, words, before = deque[Event](maxlen=count), 0, wanted.words, 0.0
    for lines in parts:
        found, parsed = list[Event](), 0
        for place in range(len(lines) - 1, -1, -1):
            if len(found) == count:
                break
            if not _may_be_wanted(source, lines[place], words):
                continue
            if parsed == share:
                unseen += place + 1
                break
            parsed += 1
            event = source.parse(source.node, lines[place])
            if wanted.takes(event):
                time = event.timestamp or _time_before(source, lines[max(0, place - LOOKED_BACK) : place], before)
                found.append(event._replace(timestamp=time))
        events.extend(reversed(found))
        before = _time_before(source, lines, before)
    return [*events], unseen


def _time_before(source: _Source, lines: list[bytes], before: float) -> float:
    """Returns the time of what has none and stands behind these lines: that of the last one, among a few, that has."""
    times = (source.parse(source.node, line).timestamp for line in reversed(lines[-LOOKED_BACK:]) if line.strip())
    return next(filter(None, times), before)


def _may_be_wanted(source: _Source, line: bytes, words: re.Pattern[bytes]) -> bool:
    """Spares the parsing of those lines that cannot be; one that is no object may have been meant to be any."""
    if source.parse is not _event or not (line[:1] == b"{" and line[-1:] == b"}"):
        return bool(line.strip())
    return words.search(line) is not None


def _long_enough(lines: list[bytes]) -> list[bytes]:
    return lines if len(lines) <= MOST_PARSED else [line for line in lines if len(line) >= SHORTEST_EVENT]


_time = attrgetter("timestamp")


def _event(node: str, line: bytes) -> Event:
    said = parse_line(line, _EventLine)
    if said is None:
        return _held(Event(0.0, node, "warning", UNREADABLE, line))
    level = said.level if said.level in LEVELS else "info"
    name = said.event if isinstance(said.event, str) else repr(said.event)
    return _held(Event(said.timestamp, node, level, name, line))


def _no_log(node: str) -> Event:
    """Stands for all lines that come after MOST_JUNK ones without a time."""
    said = {"event": UNREAD, "level": "warning", "lines_without_a_time": growing.MOST_JUNK}
    return Event(0.0, node, "warning", UNREAD, msgspec.json.encode(said))


def _metrics_event(node: str, line: bytes) -> Event:
    said = parse_line(line, _EventLine)
    return _held(Event(said.timestamp if said else 0.0, node, "info", METRICS_EVENT, line))


def _held(event: Event) -> Event:
    """Returns the event without the rest of a line that is too long."""
    if len(event.line) <= LARGEST_EVENT:
        return event
    name = event.event if len(event.event) <= LONGEST_NAME else f"{event.event[:LONGEST_NAME]}..."
    said = {"timestamp": event.timestamp, "level": event.level, "event": name}
    left_out = f"{len(event.line)} bytes, of which {LARGEST_EVENT} are the most that is shown"
    return event._replace(event=name, line=msgspec.json.encode(said | {"left_out": left_out}))
