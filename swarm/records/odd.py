"""Counts what was odd about one node's rows: how many were left out, clamped or cut, and the first few of them in
words."""

from __future__ import annotations

import msgspec

MOST_EXAMPLES = 5
"""Examples of rows left out, of rows clamped and of rows cut, that are shown."""


class Odd(msgspec.Struct):
    """Rows of one node that were left out or changed."""

    left_out: int = 0
    """Its reward was no share of the full one."""
    clamped: int = 0
    """Some other number was."""
    cut: int = 0
    """Names and lists in it were let go: all of them would take too much memory."""
    why_left_out: list[str] = []
    """Reasons of the first few, in words."""
    why_clamped: list[str] = []
    why_cut: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.left_out or self.clamped or self.cut)

    @property
    def example(self) -> str:
        """Returns one of them, in words; there is one."""
        return (self.why_left_out or self.why_clamped or self.why_cut)[0]

    def leave_out(self, why: str) -> None:
        """Count a row that is not taken."""
        self.left_out += 1
        if len(self.why_left_out) < MOST_EXAMPLES:
            self.why_left_out.append(why)

    def clamp(self, why: str) -> None:
        """Count a row with another number changed."""
        self.clamped += 1
        if len(self.why_clamped) < MOST_EXAMPLES:
            self.why_clamped.append(why)

    def cut_names(self, why: str) -> None:
        """Count a row that lost names or lists."""
        self.cut += 1
        if len(self.why_cut) < MOST_EXAMPLES:
            self.why_cut.append(why)

    def __str__(self) -> str:
        said = f"{self.left_out} rows left out, {self.clamped} clamped"
        return said + (f", {self.cut} with more names than are held" if self.cut else "")
