"""Prints lines and results, as text or JSON; a terminal shows words that say how things are in colours."""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from io import TextIOWrapper
from typing import TextIO, TypeVar, cast

import msgspec

from swarm.errors import ConfigError
from swarm.harmless import escaped, printable_lines, shows_colour

Found = TypeVar("Found")
_ESCAPING = "swarm.escaping"
codecs.register_error(_ESCAPING, lambda error: (_as_in_json(error), cast(UnicodeEncodeError, error).end))


def _as_in_json(error: UnicodeError) -> str:
    """Writes what an encoding has no bytes for as JSON does, so that JSON means the same afterwards."""
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1]


def say_in_any_encoding() -> None:
    """Let no name of a node end a command: a terminal or a pipe may take cp1252 alone."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=_ESCAPING)


def say(text: str) -> None:
    """Print lines, with nothing in them that a terminal would obey.

    A terminal that went away, or a reader that has seen enough, must not end a swarm of days.
    """
    with suppress(OSError):
        print(painted(printable_lines(text), sys.stdout), flush=True)  # noqa: T201 - the command's own voice


def warn(text: str) -> None:
    """Print a line beside the results, on standard error."""
    with suppress(OSError):
        print(painted(f"swarm: {printable_lines(text)}", sys.stderr), file=sys.stderr, flush=True)  # noqa: T201


def asked(question: str) -> bool:
    """Tells whether whoever sits there says yes. Raises ConfigError where nobody does."""
    if not sys.stdin.isatty():
        raise ConfigError("nobody is there to be asked: say --yes")
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def print_result(found: Found, render: Callable[[Found], str], *, as_json: bool) -> bool:
    """Print what a command found, as JSON on one line or as text.

    Returns:
        False if the reader has gone, such as `head`: the command goes on, for its exit code says something as well.
    """
    text = (
        escaped(msgspec.json.encode(found).decode()) if as_json else painted(printable_lines(render(found)), sys.stdout)
    )
    try:
        print(text, flush=True)  # noqa: T201
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


_GREEN, _YELLOW, _RED, _BOLD = "32", "33", "31", "1"
_RULES = (
    (re.compile(r"^(ok|valid)(?= )", re.MULTILINE), _GREEN),
    (re.compile(r"^(warning|hint)(?= )", re.MULTILINE), _YELLOW),
    (re.compile(r"^(failure|failed|error|swarm:)(?= )", re.MULTILINE), _RED),
    (re.compile(r"^(round +\d+)(?= )", re.MULTILINE), _BOLD),
    (re.compile(r"(?<=^\d\d:\d\d:\d\d\.\d{3} )(\S+ +warning)(?= )", re.MULTILINE), _YELLOW),
    (re.compile(r"(?<=^\d\d:\d\d:\d\d\.\d{3} )(\S+ +(?:error|critical))(?= )", re.MULTILINE), _RED),
)
"""What is coloured, at the beginning of a line: verdicts of checks, rounds, levels of events."""


def painted(text: str, stream: TextIO) -> str:
    if shows_colour(stream):
        for pattern, colour in _RULES:
            text = pattern.sub(f"\x1b[{colour}m\\1\x1b[0m", text)
    return text
