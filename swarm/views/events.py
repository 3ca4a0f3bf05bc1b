"""Events as lines for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from typing import Any

import msgspec

from swarm.harmless import printable
from swarm.records.growing import parse_line
from swarm.records.stream import METRICS_EVENT, Event
from swarm.views.text import local_time

_SHOWN_METRICS = (
    *("round", "my_reward", "answer_tag_rate", "reward_given_tagged", "cumulative_reward", "external_groups"),
    *("total_agents", "seconds_round"),
)
_HEAD_KEYS = frozenset({"timestamp", "level", "event", "node_id", "logger", "exception", "stack"})
_WIDE_KEYS = _HEAD_KEYS - {"logger"}


def render(events: Iterable[Event], *, wide: bool = False) -> Iterator[str]:
    """Yields each event as one readable line, an exception's traceback indented below it.

    Args:
        wide: with the date, the zone and the logger.
    """
    clock = _date if wide else _clock
    for event in events:
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
