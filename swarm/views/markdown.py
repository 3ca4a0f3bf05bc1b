"""Words of strangers in Markdown: tables, with nothing in them that Markdown or HTML would obey."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swarm.harmless import printable

MOST_NAMED = 100
"""Entries of one table; those beyond are summed up."""
LONGEST_NAME = 80
"""Characters of a name."""
_MARKS = frozenset("\\`*_[]#|~")


def plain(text: str, longest: int = LONGEST_NAME) -> str:
    """Returns one line of at most so many characters."""
    return printable(text)[:longest]


def shown(text: str, longest: int = LONGEST_NAME) -> str:
    """Returns the text as `plain` does, with all escaped that Markdown or HTML would obey."""
    return "".join(f"\\{c}" if c in _MARKS else f"&#{ord(c)};" if c in "<>&" else c for c in plain(text, longest))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of a table, and an empty one behind it; none where there are no rows. Cells are taken as they
    are."""
    if not rows:
        return []
    return [_line(head), "|" + "---|" * len(head), *map(_line, rows), ""]


def counted(what: str, of: str, counts: Mapping[str, int]) -> list[str]:
    """Returns a table of names and how many there are, the largest first; nothing for nothing."""
    ranked = sorted(((count, name) for name, count in counts.items() if count), key=lambda one: (-one[0], one[1]))
    rest = sum(count for count, _ in ranked[MOST_NAMED:])
    rows = [(shown(name), str(count)) for count, name in ranked[:MOST_NAMED]] + (
        [("others", str(rest))] if rest else []
    )
    return table((what, of), rows)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
