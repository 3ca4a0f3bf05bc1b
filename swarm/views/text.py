"""Text for a terminal: tables, ages, sizes, hints, and what is odd about rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from swarm.harmless import printable
from swarm.records.table import Odd
from swarm.spelling import age as age

if TYPE_CHECKING:
    from swarm.records.hints import Hint

MOST_ODD_LINES = 5


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)) -> str:
    """Returns columns as wide as their widest cell, two spaces apart; those named in `left` are aligned left."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = [c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))]
        return "  ".join(padded).rstrip()

    return "\n".join(line(row) for row in [head, *rows])


def local_time(timestamp: float) -> datetime | None:
    """Returns Unix seconds as a time of this machine's zone; None for what is no time."""
    try:
        return datetime.fromtimestamp(timestamp).astimezone()
    except (ValueError, OverflowError, OSError):
        return None


def shorten(text: str, length: int) -> str:
    """Cuts a text to so many characters, the last of which says that something was cut."""
    clean = printable(text)
    return clean if len(clean) <= length else clean[: length - 1] + "…"


def size(count: float) -> str:
    """Returns bytes in the unit that suits them: 1.5 kB, 22 MB, ..."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if count >= 10 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def count(number: float) -> str:
    """Returns a number of things in few characters: 830, 12.4k, 1.2M."""
    for unit in ("", "k", "M", "G"):
        if number < 999.5:
            return f"{number:.1f}{unit}" if unit and number < 99.95 else f"{number:.0f}{unit}"
        number /= 1000
    return f"{number:.0f}T"


def counts(numbers: dict[str, int]) -> str:
    """`ragged 2, oversized 1`, largest first, or `-` for none."""
    ordered = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{printable(name)} {number}" for name, number in ordered) or "-"


MOST_LINES = 10
LONGEST_NAMES = 60
"""Characters of the names of nodes."""
LONGEST = 300
"""Characters of evidence and remedy each: they quote what peers wrote."""


def first_lines(lines: Sequence[str], most: int, others: str) -> list[str]:
    """Returns the first so many, and a line that says how many others there are."""
    left = len(lines) - most
    return [*lines[:most], *([f"and {left} {others}"] if left > 0 else [])]


def render_hints(hints: Sequence[Hint]) -> str:
    """Returns a line with the evidence and one with the remedy for each; empty where there are none."""
    return "\n".join(first_lines([*map(_hint, hints)], MOST_LINES, "more hints (--json shows all)"))


def _hint(hint: Hint) -> str:
    names = shorten(", ".join(hint.nodes), LONGEST_NAMES)
    remedy = f"         -> {shorten(hint.remedy, LONGEST)} ({hint.page})"
    return f"hint     {names}: {shorten(hint.evidence, LONGEST)}\n{remedy}"


def render_maker(maker: str) -> str:
    """Returns what is to be known of a run that another program made; empty for one of this program."""
    if not maker:
        return ""
    return f"made by {maker}: rewards are brought to means per completion, '-' is what it did not record"


def render_odd(odd: Mapping[str, Odd]) -> list[str]:
    """Returns a line for each of the first nodes with rows out of range, and how many more there are."""
    lines = [f"{shorten(node, 24)}: {one}: {shorten(one.example, 80)}" for node, one in sorted(odd.items())]
    return first_lines(lines, MOST_ODD_LINES, "more nodes")
