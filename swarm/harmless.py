"""Words of strangers for terminals, JSON and CSV, with nothing in them that a terminal or a spreadsheet would obey.

Not printable are control characters (C0, C1), marks of direction, zero-width and unassigned characters.
"""

from __future__ import annotations

import json
import os
import reprlib
from collections.abc import Callable, Mapping
from typing import TextIO

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20", "'")
"""What a spreadsheet takes for the start of a formula, and the mark that says that it is none."""

_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother, _SHORT.maxlong = 4, 200, 200, 40
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = 32


def shows_colour(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Tells whether a stream is a terminal that is to be coloured: not with NO_COLOR (no-color.org), nor a dumb one."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def printable(text: str) -> str:
    """Returns one line: whatever is not printable replaced, newlines and tabs too."""
    return _without_marks(text, lambda _: "\N{REPLACEMENT CHARACTER}")


def printable_lines(text: str) -> str:
    """Returns the text as `printable` does, but newlines and tabs stay."""
    return _without_marks(text, lambda _: "\N{REPLACEMENT CHARACTER}", keep="\n\t")


def escaped(text: str, keep: str = "") -> str:
    """Escapes unprintable characters as JSON does, so that JSON means the same afterwards.

    Args:
        keep: characters that stay as they are.
    """
    return _without_marks(text, lambda mark: json.dumps(mark)[1:-1], keep)


def quoted(value: object) -> str:
    """Returns a value that a stranger may have written as Python shows it, bounded in length and depth: `repr` of a
    value that is nested as deeply as JSON may be fails, and one of megabytes is no message."""
    return printable(_SHORT.repr(value))


def csv_cell(text: str) -> str:
    """Returns a text that a spreadsheet shows and does not compute, by a `'` in front; line ends and tabs stay."""
    clean = "\r\n".join(escaped(part, keep="\n\t") for part in text.split("\r\n"))
    return f"'{clean}" if text.startswith(_FORMULA) else clean


def text_of_cell(cell: str) -> str:
    """Returns the text that csv_cell made this of, control characters aside."""
    return cell[1:] if cell.startswith("'") else cell


def _without_marks(text: str, instead: Callable[[str], str], keep: str = "") -> str:
    """Returns the text with something else in the place of every character that is not printable and not to be kept."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else instead(c) for c in text)
