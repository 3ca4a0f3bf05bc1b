"""Text for a terminal: tables, ages, sizes."""

from __future__ import annotations

from collections.abc import Sequence

from swarm.harmless import printable
from swarm.records.pace import age as age


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)) -> str:
    """Returns columns as wide as their widest cell, two spaces apart; those named in `left` are aligned left."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = [c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))]
        return "  ".join(padded).rstrip()

    return "\n".join(line(row) for row in [head, *rows])


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
