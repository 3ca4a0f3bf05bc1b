"""What a node repeats is one line."""

from __future__ import annotations

from typing import Any

import msgspec

from swarm.records.stream import Event
from swarm.views.events import TOLD_EVERY, More, Repeats, render


def said(node: str, timestamp: float, event: str = "x", **fields: Any) -> Event:
    line = msgspec.json.encode({"timestamp": timestamp, "level": "warning", "event": event, **fields})
    return Event(timestamp, node, "warning", event, line)


def told(parts: list[Event | More]) -> list[tuple[str, int]]:
    return [(part.event.event, part.times) if isinstance(part, More) else (part.event, 0) for part in parts]


def test_repeats_of_a_node_are_counted_until_it_says_something_else() -> None:
    repeats = Repeats()
    parts = repeats.take([said("a", 1.0), said("a", 2.0), said("a", 3.0), said("a", 4.0, "y")])
    assert told(parts) == [("x", 0), ("x", 2), ("y", 0)]
    assert isinstance(parts[1], More)
    assert parts[1].last == 3.0
    assert repeats.rest() == []


def test_what_differs_in_more_than_its_time_is_no_repeat() -> None:
    parts = [said("a", 1.0, round=1), said("a", 2.0, round=2), said("a", 3.0, "y", round=2)]
    assert Repeats().take(parts) == parts


def test_who_follows_hears_how_often_when_nothing_more_comes() -> None:
    repeats = Repeats()
    assert told(repeats.take([said("a", 1.0), said("a", 2.0)])) == [("x", 0)]
    assert told(repeats.take([said("a", 3.0)])) == []
    assert told(repeats.take([])) == [("x", 2)]
    assert told(repeats.take([])) == []
    assert told(repeats.take([said("a", 4.0)])) == []
    assert told([*repeats.rest()]) == [("x", 1)]


def test_what_goes_on_coming_is_told_now_and_then() -> None:
    repeats = Repeats()
    parts = repeats.take([said("a", float(t)) for t in range(0, int(2 * TOLD_EVERY) + 1, 20)])
    assert told(parts) == [("x", 0), ("x", 3), ("x", 3)]


def test_no_event_is_lost_or_counted_twice() -> None:
    events = [said(f"n{t * 7 % 3}", float(t), f"e{t // 5 % 2}") for t in range(200)]
    repeats = Repeats()
    parts = [part for start in range(0, 200, 17) for part in repeats.take(events[start : start + 17])]
    counts = [count or 1 for _, count in told([*parts, *repeats.rest()])]
    assert sum(counts) == 200


def test_a_time_beyond_any_calendar_is_a_line_all_the_same() -> None:
    assert next(render([said("alice", 1e300)], wide=True)).startswith("????-")
