"""A table as LaTeX: booktabs' rules, the cells of the page."""

from __future__ import annotations

import re

from swarm.plugins.study.report.parts import MISSING, ShownTable

LONGEST = 40
"""Rows that fit a page; longer ones are a `longtable`, of the package of that name."""
_ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    MISSING: "--",
} | {letter: f"\\{letter}" for letter in "&%$#_{}"}


def latex(table: ShownTable) -> str:
    """The table for `\\input`; its document loads booktabs, and longtable for long ones."""
    kind = "longtable" if len(table.data) > LONGEST else "tabular"
    head, *rows = ([escaped(cell) for cell in row] for row in [[c.title for c in table.columns], *table.rows()])
    lines = [
        f"% {_one_line(table.caption)}",
        f"\\begin{{{kind}}}{{{''.join('r' if column.numeric else 'l' for column in table.columns)}}}",
        r"\toprule",
        _row(head),
        r"\midrule",
        *map(_row, rows),
        r"\bottomrule",
        f"\\end{{{kind}}}",
    ]
    return "\n".join(lines) + "\n"


def _row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def escaped(text: str) -> str:
    """Returns text as LaTeX prints it, on one line: names come from a folder that others write to."""
    return "".join(_ESCAPES.get(letter, letter) for letter in _one_line(text))


def _one_line(text: str) -> str:
    return re.sub(r"[\x00-\x20\x7f\x85\u2028\u2029]+", " ", text)
