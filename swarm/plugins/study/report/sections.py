"""The parts of a report: sections of text, tables and figures, before they are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from swarm.plugins.study.analysis.significance import FEWEST_SEEDS

MISSING = "–"
"""What stands for a value that there is not."""
TOO_FEW = f"n < {FEWEST_SEEDS}"
"""Why there is no p-value."""


@dataclass(frozen=True)
class Column:
    """Says how one column of a table is shown."""

    title: str
    source: str
    """Column of the frame."""
    show: Callable[[Any], str] = str
    numeric: bool = True
    instead: str = ""
    """Column of the frame whose text stands for a value that there is not."""
    to: str = ""
    """Column of an interval's upper end, whose lower one is `source`: shown as one cell, `1.2 to 3.4`."""


INTERVAL = "95 % interval"
CONFIGURATION = Column("configuration", "configuration", numeric=False)
SEED = Column("seed", "seed")


@dataclass(frozen=True)
class Table:
    """A frame: all of it goes to the files, and what `columns` name to the page."""

    name: str
    """Name of its files, and its anchor; unique in the report."""
    caption: str
    data: pd.DataFrame
    columns: tuple[Column, ...]

    def rows(self) -> list[list[str]]:
        """Returns the cells that are shown, as text."""
        return [[_shown(column, row) for column in self.columns] for row in self.data.to_dict("records")]


@dataclass(frozen=True)
class Picture:
    """A figure."""

    name: str
    """Name of its files, and its anchor; unique in the report."""
    caption: str
    figure: Any
    """matplotlib.figure.Figure"""


@dataclass(frozen=True)
class Section:
    """Holds what is said about one question."""

    title: str
    text: tuple[str, ...] = ()
    """Paragraphs: what was computed, and how to read it."""
    parts: tuple[Table | Picture, ...] = ()

    @property
    def long(self) -> bool:
        """A printed page may break within it."""
        return len(self.parts) > 1 or any(isinstance(part, Table) and len(part.data) > 12 for part in self.parts)


def number(digits: int) -> Callable[[Any], str]:
    """Shows so many decimals."""
    return lambda value: f"{value:,.{digits}f}"


def signed(digits: int) -> Callable[[Any], str]:
    """Shows so many decimals, and the sign."""
    return lambda value: f"{value:+,.{digits}f}"


def times(factor: float) -> str:
    """1.234 as x1.23."""
    return f"x{factor:.2f}"


def percent(share: float) -> str:
    """0.123 as 12.3 %."""
    return f"{share * 100:.1f} %"


def signed_percent(share: float) -> str:
    """0.123 as +12.3 %."""
    return f"{share * 100:+.1f} %"


def p_value(p: float) -> str:
    """Returns a probability, without a false precision."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def p_text(p: float) -> str:
    """Returns a probability in a sentence: `p = 0.012`, `p < 0.001`."""
    return f"p {p_value(p)}" if p < 0.001 else f"p = {p_value(p)}"


def whole(value: float) -> str:
    """Returns a count."""
    return f"{int(value):,}"


def is_missing(value: Any) -> bool:
    """Tells whether a value is None, NaN, NaT or pandas' NA."""
    return value is None or bool(pd.isna(value))


def _shown(column: Column, row: dict[Any, Any]) -> str:
    values = [row[name] for name in (column.source, column.to) if name]
    if not any(map(is_missing, values)):
        return " to ".join(map(column.show, values))
    return (row[column.instead] if column.instead else "") or MISSING
