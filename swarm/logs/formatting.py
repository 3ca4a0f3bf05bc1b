"""Turns records into lines: JSON for the events file, readable ones for the terminal and stdout.log.

Nothing that is logged can fail to be written: what has no text of its own is shown by its type.

NODE is the node of this process that is at work, if it runs several: each line and print belongs to that node alone.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from swarm.harmless import escaped

NODE: ContextVar[str | None] = ContextVar("NODE", default=None)
"""The node that is at work. Tasks, their threads and the compute step inherit it."""


@contextmanager
def logging_as(node_id: str) -> Iterator[None]:
    """Assigns what is logged inside to this node, in the tasks started there and the threads they run as well."""
    token = NODE.set(node_id)
    try:
        yield
    finally:
        NODE.reset(token)


def concerns(node_id: str) -> bool:
    """Tells whether what happens now belongs to this node, or to no node and so to every one."""
    return NODE.get() in (None, node_id)


def json_formatter(node_id: str) -> logging.Formatter:
    """Returns one JSON object per record: time, level, event and node first."""

    def add_node(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
        head = {key: event[key] for key in ("timestamp", "level", "event")} | {"node_id": node_id}
        return {**head, **event, **head}

    return _formatter(add_node, structlog.processors.format_exc_info, _json_line)


def readable_formatter(*, colors: bool) -> logging.Formatter:
    """Returns lines for people."""
    return _formatter(_clock_time, _showable, readable_renderer(colors=colors))


def terminal_formatter(*, colors: bool) -> logging.Formatter:
    """The same, saying whose each line is, for several nodes share a terminal."""
    return _formatter(_clock_time, _whose, _showable, readable_renderer(colors=colors))


def _whose(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    node = NODE.get()
    return event if node is None else {"node_id": node, **event}


def _formatter(*processors: Processor) -> logging.Formatter:
    strip = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.ExtraAdder(), _say_once], processors=[_from_record, strip, *processors]
    )


def _say_once(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """A library's own formatter leaves the text on the record, where it would come out a second time."""
    if event.get("message") == event.get("event"):
        event.pop("message", None)
    return event


def readable_renderer(*, colors: bool) -> structlog.dev.ConsoleRenderer:
    """Fields in the order in which they were said, and tracebacks as Python prints them."""
    return structlog.dev.ConsoleRenderer(
        colors=colors, sort_keys=False, exception_formatter=structlog.dev.plain_traceback
    )


def _from_record(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Time, level and logger from the record, so that all three readers are told the same."""
    record: logging.LogRecord = event["_record"]
    said = event["event"]
    head = {
        "timestamp": record.created,
        "level": record.levelname.lower(),
        "event": said.strip() if isinstance(said, str) else said,
        "logger": record.name,
    }
    return {**head, **event, **head}  # head goes first, and an event's own keys do not replace it


def _clock_time(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    return {**event, "timestamp": datetime.fromtimestamp(event["timestamp"]).strftime("%H:%M:%S.%f")[:-3]}


def _showable(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """The renderer calls repr on every value, and a value whose repr fails must not lose the event.

    It shows texts without spaces as they are: no terminal is to obey what a stranger wrote.
    """
    plain = (int, float, type(None))
    shown = {k: v if k == "exc_info" or isinstance(v, plain) else as_text(_plain(v)) for k, v in event.items()}
    return {k: escaped(v, keep="\n\t") if isinstance(v, str) and k != "event" else v for k, v in shown.items()}


def _json_line(_: WrappedLogger, __: str, event: EventDict) -> str:
    try:
        return msgspec.json.encode(event, enc_hook=_plain).decode()
    except (TypeError, ValueError, RecursionError):  # lone surrogates, keys without order, structures inside themselves
        texts = {_clean(str(k)): v if type(v) in (int, float) else _clean(as_text(v)) for k, v in event.items()}
        return msgspec.json.encode(texts).decode()


def _plain(value: object) -> object:
    """Turns what JSON has no word for into what it has: foreign numbers into numbers, paths into text, all else into
    its repr."""
    if isinstance(value, float | int):
        return float(value)
    return os.fspath(value) if isinstance(value, os.PathLike) else as_text(value)


def as_text(value: object) -> str:
    """Returns a text as it is, anything else as its repr."""
    if isinstance(value, str):
        return value
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a value that cannot even be shown must not lose the event
        return f"<{type(value).__name__} that cannot be shown>"


def _clean(text: str) -> str:
    return as_bytes(text).decode()


def as_bytes(text: str) -> bytes:
    """UTF-8, in which lone surrogates are escaped."""
    return text.encode("utf-8", "backslashreplace")
