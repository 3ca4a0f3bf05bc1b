"""`swarm study report`: a study's folder, or its committed tables, becomes a Markdown page, figures and tables.

Evidence ─┬─▶ CONTENTS ─┬─ Table.frame ─▶ tables/NAME.csv
          │             ├─ Figure.draw ─▶ figures/NAME.png, .svg, .pdf
          │             └─ markdown ────▶ report.md
          └─▶ write_tables ─────────────▶ the per-seed tables
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from swarm.errors import ConfigError, StoreError
from swarm.harmless import printable
from swarm.plugins.study.record import study_folder, study_store
from swarm.plugins.study.report.contents import CONTENTS
from swarm.plugins.study.report.evidence import FINISHED, Evidence
from swarm.plugins.study.report.figures import UNDATED, encoded, figure_style
from swarm.plugins.study.report.notes import missing_text
from swarm.plugins.study.report.parts import Figure, Section, Table, is_missing, rows_of
from swarm.plugins.study.report.seed_tables import FILES, TABLES, Put, csv_bytes, write_tables
from swarm.store.folder.publish import publish_below

REPORT = "report"
"""Folder of a study, where no other folder is named."""
PAGE = "report.md"
FORMATS = (*UNDATED, "csv")
"""What can be written beside the page."""
LONGEST_TABLE = 40
"""Rows that the page shows of a table; its file has them all."""
MISSING = "–"
"""What stands for a value that there is not."""
SIGNED = ("improvement", "difference", "excess")
"""Columns whose numbers have their sign."""
PROBABILITIES = ("p", "p_holm")
_MARK = re.compile(r"([\\`*_\[\]<>|&$~#])")


def write_report(evidence: Evidence, folder: Path, put: Put, formats: Collection[str] = FORMATS) -> Path:
    """Write the report of a study, whether or not all of its runs are finished. Returns the page's file.

    Args:
        evidence: from read_evidence, or from read_tables: the report is the same.
        folder: where it is written, for messages.
        put: writes a file there; from into_folder or into_study.
        formats: which of FORMATS to write beside the page.

    Raises:
        StoreError: the output cannot be written.
        ConfigError: an unknown format.
    """
    if unknown := sorted(set(formats) - set(FORMATS)):
        raise ConfigError(f"a report's files are {', '.join(FORMATS)}; got {', '.join(unknown)}")
    try:
        _write(evidence, put, formats)
    except StoreError as error:
        raise StoreError(f"cannot write the report into {folder}: {error}; see --output") from None
    return folder / PAGE


def into_folder(folder: Path) -> tuple[Path, Put]:
    """Returns where a report of the user's own goes."""
    return folder, partial(publish_below, folder, durable=False)


def into_study(path: Path, study: str) -> tuple[Path, Put]:
    """Returns where the report beside a study goes. Others may write there, too: what stands in the way of a file goes,
    and nothing is followed."""
    store = study_store(path, study)
    return study_folder(path, study) / REPORT, lambda name, data: store.put(f"{REPORT}/{name}", data, durable=False)


def _write(evidence: Evidence, put: Put, formats: Collection[str]) -> None:
    frames, forms = tables(evidence), [form for form in UNDATED if form in formats]
    if "csv" in formats:  # before anything is drawn: not everywhere can be written
        for name, frame in frames.items():
            put(f"{TABLES}/{name}.csv", csv_bytes(frame))
        write_tables(evidence, put)
    for part in figures(evidence) if forms else ():
        with figure_style():
            figure = part.draw(evidence, rows_of(part.rows, evidence))
            for form in forms:
                put(f"figures/{part.name}.{form}", encoded(figure, form))
                figure.set_layout_engine("none")  # laid out once, for all of its files
    put(PAGE, markdown(evidence, frames, *forms[:1]).encode())


def tables(evidence: Evidence) -> dict[str, pd.DataFrame]:
    """Returns the tables that the evidence has rows for, by name."""
    found = {part.name: part.frame(evidence) for one in CONTENTS for part in one.parts if isinstance(part, Table)}
    return {name: frame for name, frame in found.items() if len(frame)}


def figures(evidence: Evidence) -> Iterator[Figure]:
    """Yields the figures that the evidence has rows for."""
    parts = (part for one in CONTENTS for part in one.parts if isinstance(part, Figure))
    return (part for part in parts if len(rows_of(part.rows, evidence)))


# ── Markdown ────────────────────────────────────────────────────────────────────────────────────────────────────────
def markdown(evidence: Evidence, frames: Mapping[str, pd.DataFrame], form: str = "") -> str:
    """Returns the page.

    Names of nodes, tasks and configurations come from a folder that others write to, so all text is escaped.

    Args:
        frames: from tables.
        form: of the files of the figures; empty: the page has none.
    """
    record, runs = evidence.record, evidence.runs
    finished = int((runs["state"] == FINISHED).sum())
    head = (
        f"# {plain(record.title or record.study)}",
        plain(
            f"Study {record.study}: {finished} of {len(runs)} runs finished, {record.nodes} nodes, {record.rounds} "
            f"rounds, {len(record.seeds)} seeds."
        ),
        plain(missing_text(runs)),
    )
    foot = plain(
        f"Runs made by swarm {record.versions.get('swarm', '')}. The figures lie in figures/, the tables in tables/. "
        f"From {', '.join(FILES.values())} and study.json in there `swarm study report --from-tables` writes this page "
        "again."
    )
    drawn = {part.name for part in figures(evidence)} if form else set[str]()
    sections = (line for one in CONTENTS for line in _section(one, evidence, frames, drawn, form))
    return "\n\n".join(filter(None, (*head, *sections, foot))) + "\n"


def _section(
    section: Section, evidence: Evidence, frames: Mapping[str, pd.DataFrame], drawn: Collection[str], form: str
) -> Iterator[str]:
    """Yields the paragraphs of a section; none of one that is left out."""
    named = {part.name for part in section.parts if isinstance(part, Table | Figure)}
    if named and not named & {*frames, *drawn}:
        return
    yield f"## {plain(section.title)}"
    for part in section.parts:
        if not isinstance(part, Table | Figure):
            yield from map(plain, [part] if isinstance(part, str) else part(evidence))
        elif isinstance(part, Table):
            yield from _table(part, frames[part.name]) if part.name in frames else ()
        elif part.name in drawn:
            caption = plain(part.caption.replace("{window}", str(evidence.window)))
            yield f"![{caption}](figures/{part.name}.{form})"
            yield caption


def _table(table: Table, frame: pd.DataFrame) -> Iterator[str]:
    """Yields a table with its caption, and where the rows are that are not shown."""
    columns = shown_columns(table, frame)
    marks = ["--:" if pd.api.types.is_numeric_dtype(frame[column]) else "---" for column in columns]
    lines = [[plain(column.replace("_", " ")) for column in columns], marks, *cells(frame.head(LONGEST_TABLE), columns)]
    yield f"**{plain(table.caption)}**"
    yield "\n".join(f"| {' | '.join(line)} |" for line in lines)
    if len(frame) > LONGEST_TABLE:
        yield f"The first {LONGEST_TABLE} of {len(frame)} rows; all of them are in tables/{table.name}.csv."


def shown_columns(table: Table, frame: pd.DataFrame) -> list[str]:
    """Returns the columns of the page: no ends of intervals, which stand beside their values, nor empty ones."""
    ends = {f"{column}{end}" for column in frame for end in ("_low", "_high")}
    return [
        column
        for column in table.shown or frame.columns
        if column not in ends and any(cell != MISSING for (cell,) in cells(frame, [column]))
    ]


def cells(frame: pd.DataFrame, columns: Sequence[str]) -> list[list[str]]:
    """Returns the text of these columns, row by row."""
    return [[_cell(row, column) for column in columns] for row in frame.to_dict("records")]


def _cell(row: Mapping[Any, Any], column: str) -> str:
    text = _value(row[column], column)
    if not is_missing(row.get(f"{column}_low")):
        text += f" ({_value(row[f'{column}_low'], column)} to {_value(row[f'{column}_high'], column)})"
    return text


def _value(value: Any, column: str) -> str:
    """Returns a value as the page has it: of a number those digits that its size asks for."""
    if is_missing(value) or value == "":
        return MISSING
    if isinstance(value, str | bool):
        return plain(str(value))
    if column in PROBABILITIES:
        return r"\< 0.001" if value < 0.001 else f"{value:.3f}"
    digits = 0 if float(value).is_integer() or abs(value) >= 1000 else 2 if abs(value) >= 1 else 3
    return f"{value:{'+' if column in SIGNED else ''},.{digits}f}"


def plain(text: str) -> str:
    """Returns text that Markdown shows as it is: on one line, and none of its characters a mark."""
    return _MARK.sub(r"\\\1", printable(text))
