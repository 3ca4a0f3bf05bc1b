"""Words of strangers for terminals, JSON and CSV, with nothing in them that a terminal or a spreadsheet would obey.

Not printable are control characters (C0, C1), marks of direction, zero-width and unassigned characters.
"""

from __future__ import annotations

import json

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20", "'")
"""What a spreadsheet takes for the start of a formula, and the mark that says that it is none."""


def printable(text: str) -> str:
    """One line: whatever is not printable replaced, newlines and tabs too."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def printable_lines(text: str) -> str:
    """As `printable`, but newlines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def escaped(text: str, keep: str = "") -> str:
    """As JSON escapes them, so that JSON means the same afterwards.

    Args:
        keep: characters that stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else json.dumps(c)[1:-1] for c in text)


def csv_cell(text: str) -> str:
    """A text that a spreadsheet shows and does not compute, by a `'` in front; line ends and tabs stay."""
    clean = "\r\n".join(escaped(part, keep="\n\t") for part in text.split("\r\n"))
    return f"'{clean}" if text.startswith(_FORMULA) else clean
