"""How the parts of a report are declared, and what a study's evidence makes of a table.

Table(rows, by, measures, derived) ─frame(evidence)─▶ one row per group: all of it goes to the file, `shown` to the page
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from swarm.plugins.study.analysis.curves import ratio
from swarm.plugins.study.analysis.effect_size import mean_by
from swarm.plugins.study.report.evidence import Evidence

Rows = str | tuple[str, Callable[[pd.DataFrame], pd.DataFrame]] | Callable[[Evidence], pd.DataFrame]
"""A field of Evidence, a field and a function of it, or a function of all evidence."""
Note = str | Callable[[Evidence], Iterable[str]]
"""A paragraph, or what makes some of the evidence."""
Measures = Mapping[str, tuple[str, Any]]
"""Column of a table -> the column of its rows, and pandas' name of the statistic over a group of them, or INTERVAL."""
INTERVAL = "interval"
"""The mean with its 95 % interval over seeds: a column of the source's name, and those of its ends, `_low`, `_high`."""


@dataclass(frozen=True)
class Table:
    """Declares a table; one without rows is left out."""

    name: str
    """Name of its file; unique in the report."""
    caption: str
    rows: Rows
    by: tuple[str, ...] = ()
    """Columns that the rows are sorted by, configurations in the study's order; with measures, grouped by."""
    measures: Measures = field(default_factory=dict)
    derived: Mapping[str, Callable[[pd.DataFrame], Any]] = field(default_factory=dict)
    """Further columns, each computed of those before it."""
    shown: tuple[str, ...] = ()
    """Columns of the page, of which one without any value is left out; all, if none is named."""

    def frame(self, evidence: Evidence) -> pd.DataFrame:
        """Returns the table of a study."""
        found = rows_of(self.rows, evidence)
        if found.empty:
            return found
        if self.measures:
            found = measured(found, self.by, self.measures)
        return in_order(found.assign(**self.derived), self.by, evidence)


@dataclass(frozen=True)
class Figure:
    """Declares a figure; one without rows is left out."""

    name: str
    """Name of its files; unique in the report."""
    caption: str
    """In which `{window}` stands for the rounds of the moving averages."""
    rows: Rows
    draw: Callable[[Evidence, pd.DataFrame], Any]
    """Returns a matplotlib.figure.Figure of the rows: one of the kinds of swarm.plugins.study.report.figures."""


@dataclass(frozen=True)
class Section:
    """Declares what is said about one question; one that has tables or figures is left out where none has rows."""

    title: str
    parts: tuple[Note | Table | Figure, ...]
    """Notes say how to read it, and what came out."""


def section(title: str, *parts: Note | Table | Figure) -> Section:
    """Declares a section."""
    return Section(title, parts)


def rows_of(rows: Rows, evidence: Evidence) -> pd.DataFrame:
    """Returns the rows that the evidence has for a part."""
    if callable(rows):
        return rows(evidence)
    field, made = (rows, None) if isinstance(rows, str) else rows
    found: pd.DataFrame = getattr(evidence, field)
    return made(found) if made and len(found) else found


def is_missing(value: Any) -> bool:
    """Tells whether a value is None, NaN, NaT or pandas' NA."""
    return value is None or bool(pd.isna(value))


def ratio_of(part: str, whole: str) -> Callable[[pd.DataFrame], pd.Series[float]]:
    """Returns a derived column: one column over another, nothing over zero."""
    return lambda found: ratio(found[part], found[whole])


def measured(rows: pd.DataFrame, by: tuple[str, ...], measures: Measures) -> pd.DataFrame:
    """Returns one row per group, with these measures of it."""
    groups = rows.groupby([*by], sort=False, observed=True)
    found = [
        mean_by(rows, [*by], source).set_index([*by]).drop(columns="seeds")
        if statistic == INTERVAL
        else groups.agg(**{name: (source, statistic)})
        for name, (source, statistic) in measures.items()
    ]
    return pd.concat(found, axis=1).reset_index()


def in_order(rows: pd.DataFrame, by: tuple[str, ...], evidence: Evidence) -> pd.DataFrame:
    """Returns rows sorted by these columns, configurations in the study's order."""
    place = {name: place for place, name in enumerate(evidence.configurations)}

    def key(column: pd.Series[Any]) -> pd.Series[Any]:
        return column.map(place) if column.name == "configuration" else column

    return rows.sort_values([*by], key=key, ignore_index=True) if by else rows
