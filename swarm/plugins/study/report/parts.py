"""The parts of a report: how a section is declared, and what the writer makes of it.

Section(title, notes, tables, pictures) ─show(section, evidence)─▶ ShownSection: text, frames, figures
    Table:   a frame of the evidence, the columns to group it by, measures of each group, columns to show
    Picture: a function of the evidence that draws a figure
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd

from swarm.plugins.study.report.evidence import Evidence, Rows

MISSING = "–"
"""What stands for a value that there is not."""
INTERVAL = "95 % interval"


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
    of: tuple[str, Any] | None = None
    """Of a measure of a group: the column of its rows, and pandas' name of the statistic over them."""


Note = str | Callable[[Evidence], Iterable[str]]
"""A paragraph in which `{window}` stands for the rounds of the moving averages, or what makes some of the evidence."""


@dataclass(frozen=True)
class Table:
    """Declares a table; one without rows is left out."""

    name: str
    """Name of its files, and its anchor; unique in the report."""
    caption: str
    source: Rows
    columns: tuple[Column, ...]
    """What the page shows; the files have all columns."""
    by: tuple[str, ...] = ()
    """Columns that the rows are sorted by, and grouped by where columns are measures; configurations in the study's
    order."""
    then: Callable[[pd.DataFrame, Evidence], pd.DataFrame] | None = None
    """Adds what is derived of the measures of a group."""
    left_out: Callable[[Evidence], set[str]] = lambda _: set()
    """Sources of columns that a page does not show, of this evidence."""

    def frame(self, evidence: Evidence) -> pd.DataFrame:
        """Returns the rows that the evidence has for it."""
        found = evidence.rows_of(self.source)
        if found.empty:
            return found
        measures = {column.source: column.of for column in self.columns if column.of}
        if measures:
            found = found.groupby([*self.by], observed=True).agg(**measures)
        found = self.then(found, evidence) if self.then else found
        found = found.reset_index() if measures else found
        return evidence.look.in_order(found, *self.by) if self.by else found


@dataclass(frozen=True)
class Picture:
    """Declares a figure."""

    name: str
    """Name of its files, and its anchor; unique in the report."""
    caption: Note
    draw: Callable[[Evidence], Any]
    """Returns a matplotlib.figure.Figure."""
    when: Callable[[Evidence], bool] = lambda _: True


@dataclass(frozen=True)
class Section:
    """Declares what is said about one question."""

    title: str
    notes: tuple[Note, ...]
    """What was computed, and how to read it."""
    parts: tuple[Table | Picture, ...] = ()
    when: Callable[[Evidence], bool] = lambda _: True
    """Tells whether the evidence allows it."""
    otherwise: Note = ""
    """What stands there where it does not; without it there is no such section."""


def section(
    title: str,
    *parts: Note | Table | Picture,
    when: Callable[[Evidence], bool] = lambda _: True,
    otherwise: Note = "",
) -> Section:
    """Declares a section: what is no table or picture of its parts is a note."""
    notes = tuple(part for part in parts if not isinstance(part, (Table, Picture)))
    drawn = tuple(part for part in parts if isinstance(part, (Table, Picture)))
    return Section(title, notes, drawn, when, otherwise)


def table(
    name: str,
    caption: str,
    source: Rows,
    *shown: Column | tuple[Column, ...],
    by: tuple[str, ...] = (),
    then: Callable[[pd.DataFrame, Evidence], pd.DataFrame] | None = None,
    left_out: Callable[[Evidence], set[str]] = lambda _: set(),
) -> Table:
    """Declares a table of these columns, some of which may come as tuples of one form."""
    flat = tuple(one for each in shown for one in ((each,) if isinstance(each, Column) else each))
    return Table(name, caption, source, flat, by, then, left_out)


@dataclass(frozen=True)
class ShownTable:
    """A frame: all of it goes to the files, and what `columns` name to the page."""

    name: str
    caption: str
    data: pd.DataFrame
    columns: tuple[Column, ...]

    def rows(self) -> list[list[str]]:
        """Returns the cells that are shown, as text."""
        return [[_cell(column, row) for column in self.columns] for row in self.data.to_dict("records")]


@dataclass(frozen=True)
class ShownPicture:
    """A figure with its caption, to be drawn when it is written."""

    name: str
    caption: str
    draw: Callable[[], Any]
    """Returns a matplotlib.figure.Figure."""


@dataclass(frozen=True)
class ShownSection:
    """Holds what a page says about one question."""

    title: str
    text: tuple[str, ...]
    parts: tuple[ShownTable | ShownPicture, ...] = ()

    @property
    def long(self) -> bool:
        """A printed page may break within it."""
        return len(self.parts) > 1 or any(isinstance(part, ShownTable) and len(part.data) > 12 for part in self.parts)


def show(section: Section, evidence: Evidence) -> ShownSection | None:
    """Returns a section of this evidence; None where it does not allow it."""
    if not section.when(evidence):
        text = _text([section.otherwise], evidence)
        return ShownSection(section.title, text) if text else None
    shown = (_shown(part, evidence) for part in section.parts)
    return ShownSection(section.title, _text(section.notes, evidence), tuple(part for part in shown if part))


def _shown(part: Table | Picture, evidence: Evidence) -> ShownTable | ShownPicture | None:
    if isinstance(part, Picture):
        if not part.when(evidence):
            return None
        return ShownPicture(part.name, " ".join(_text([part.caption], evidence)), partial(part.draw, evidence))
    frame, hidden = part.frame(evidence), part.left_out(evidence)
    columns = tuple(column for column in part.columns if column.source not in hidden)
    return None if frame.empty else ShownTable(part.name, part.caption, frame, columns)


def _text(notes: Iterable[Note], evidence: Evidence) -> tuple[str, ...]:
    paragraphs = (text for note in notes for text in ([note] if isinstance(note, str) else note(evidence)))
    return tuple(text.replace("{window}", str(evidence.window)) for text in paragraphs if text)


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


def _columns(
    show: Callable[[Any], str],
    names: tuple[str, ...],
    titles: dict[str, str],
    of: Any = None,
    *,
    numeric: bool = True,
) -> tuple[Column, ...]:
    """Returns columns of one form: `names` under their own names, others as source -> title.

    Args:
        of: the statistic over the source's columns of these names, where they are measures of a group.
    """
    titled = {name: name.replace("_", " ") for name in names} | titles
    return tuple(
        Column(title, source, show, numeric, of=(source, of) if of else None) for source, title in titled.items()
    )


def words(*names: str, show: Callable[[Any], str] = str, **titles: str) -> tuple[Column, ...]:
    """Returns columns of text."""
    return _columns(show, names, titles, numeric=False)


def counts(*names: str, of: Any = None, **titles: str) -> tuple[Column, ...]:
    """Returns columns of whole numbers."""
    return _columns(lambda value: f"{int(value):,}", names, titles, of)


def decimals(digits: int, *names: str, of: Any = None, **titles: str) -> tuple[Column, ...]:
    """Returns columns of numbers with so many decimals."""
    return _columns(number(digits), names, titles, of)


def differences(digits: int, *names: str, **titles: str) -> tuple[Column, ...]:
    """Returns columns of numbers with their sign and so many decimals."""
    return _columns(signed(digits), names, titles)


def shares(*names: str, of: Any = None, **titles: str) -> tuple[Column, ...]:
    """Returns columns of shares, in percent."""
    return _columns(percent, names, titles, of)


def measure(shown: tuple[Column, ...], source: str, statistic: Any) -> tuple[Column, ...]:
    """Returns columns as measures of a group: the statistic over a column of another name."""
    return tuple(replace(column, of=(source, statistic)) for column in shown)


def estimate(
    title: str, source: str, show: Callable[[Any], str], ends: Callable[[Any], str] | None = None
) -> tuple[Column, Column]:
    """Returns a column and that of its interval, from `source`_low to `source`_high."""
    return Column(title, source, show), Column(INTERVAL, f"{source}_low", ends or show, to=f"{source}_high")


CONFIGURATION = Column("configuration", "configuration", numeric=False)
SEED = Column("seed", "seed")


def is_missing(value: Any) -> bool:
    """Tells whether a value is None, NaN, NaT or pandas' NA."""
    return value is None or bool(pd.isna(value))


def _cell(column: Column, row: dict[Any, Any]) -> str:
    values = [row[name] for name in (column.source, column.to) if name]
    if not any(map(is_missing, values)):
        return " to ".join(map(column.show, values))
    return (row[column.instead] if column.instead else "") or MISSING
