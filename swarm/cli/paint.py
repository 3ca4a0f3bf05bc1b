"""Colours of words that say how things are, for terminals; in a pipe, and with NO_COLOR, text stays as it is."""

from __future__ import annotations

import re
from typing import TextIO

from swarm.harmless import shows_colour

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
    """Returns the text as this stream shows it."""
    if shows_colour(stream):
        for pattern, colour in _RULES:
            text = pattern.sub(f"\x1b[{colour}m\\1\x1b[0m", text)
    return text
