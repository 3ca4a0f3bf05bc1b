"""Documents for a browser: every text without marks that change how others read, and of a bounded length."""

from __future__ import annotations

import math
from typing import Any

from swarm.harmless import printable_lines

LONGEST = 2000
"""Characters of a text that is not an answer."""
MOST = 1000
"""Entries of one list or object."""


def harmless(value: Any, longest: int = LONGEST, most: int = MOST) -> Any:
    """A JSON value with texts made printable and cut, lists and objects cut, and null for what is no finite number."""
    match value:
        case str():
            return cut(value, longest)
        case dict():
            entries = zip(range(most), value.items(), strict=False)
            return {cut(str(name), longest): harmless(entry, longest, most) for _, (name, entry) in entries}
        case list() | tuple():
            return [harmless(entry, longest, most) for entry in value[:most]]
        case float():
            return value if math.isfinite(value) else None
    return value


def cut(text: str, longest: int) -> str:
    """Printable, newlines and tabs kept; what is longer ends in `...`."""
    return printable_lines(text if len(text) <= longest else f"{text[:longest]}...")
