"""The events of a run for a browser: the last ones that match, and then what comes. One reader for each who follows."""

from __future__ import annotations

from typing import Any

from swarm.errors import ConfigError
from swarm.records.stream import LEVELS, Event, EventStream, WantedEvents
from swarm.store.run import Run
from swarm.views.events import in_words
from swarm.web.harmless import cut
from swarm.wire import keys

LAST = 300
"""Events that one begins with."""
MOST_PARSED = 20_000
"""Lines of all logs together that are parsed of each part that is read, to find them."""
MOST_AT_ONCE = 300
LONGEST_PATTERN = 100
LONGEST = 1200
"""Characters of an event's words."""
MOST_LINES = 60
"""Lines of a traceback."""


def wanted(nodes: list[str], level: str, event: str) -> WantedEvents:
    """Returns which events are asked for. Raises ConfigError for what cannot be."""
    if level not in LEVELS:
        raise ConfigError(f"level must be one of {', '.join(LEVELS)}, got {cut(level, 40)!r}")
    if len(event) > LONGEST_PATTERN or not all(map(keys.is_node_id, nodes)):
        raise ConfigError(f"event must have at most {LONGEST_PATTERN} characters, and node be the name of one")
    return WantedEvents(frozenset(nodes), event or "*", level)


class Journal:
    """Follows the events of a run. Blocking."""

    def __init__(self, run: Run, asked: WantedEvents) -> None:
        self.run = run
        self._stream = EventStream(run, asked)
        self._is_new = True
        self.is_whole = False
        """What was given first were all events that match."""

    def more(self) -> list[dict[str, Any]]:
        """Returns the last events at first, afterwards those that came since; of very many the last ones."""
        if self._is_new:
            events = self._stream.read_last(LAST + 1, MOST_PARSED)
            self.is_whole = len(events) <= LAST and not self._stream.unseen
        else:
            events = self._stream.read_on()
        self._is_new = False
        return [*map(event_document, events[-MOST_AT_ONCE:])]


def event_document(event: Event) -> dict[str, Any]:
    """Returns one event."""
    words, details = in_words(event)
    return {
        "time": event.timestamp,
        "node": event.node,
        "level": event.level,
        "event": cut(event.event, 80),
        "words": cut(" ".join(words), LONGEST),
        "details": cut("\n".join(details[:MOST_LINES]), 4 * LONGEST),
    }
