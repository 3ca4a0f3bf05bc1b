"""`swarm study report`: a study's folder, or its committed tables, becomes one page, figures and tables.

    study.json, metrics, judge ─Evidence─▶ sections ─▶ index.html
                                   │         ├ figures ─▶ figures/{name}.png, .svg, .pdf
                                   │         └ tables ──▶ tables/{name}.csv, .parquet, .tex
                                   └ per-seed tables ───▶ tables/study.json, runs.csv, ... ─from tables─▶ Evidence

The same input gives the same bytes: nothing here asks for the time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from swarm.errors import ConfigError, StoreError
from swarm.harmless import printable
from swarm.plugins.study.record import study_folder, study_store
from swarm.plugins.study.report.evidence import FINISHED, Evidence, missing_text, read_evidence
from swarm.plugins.study.report.figure_style import figure_style, inline_svg, pdf_bytes, png_bytes, svg_file, svg_text
from swarm.plugins.study.report.parts import ShownSection, ShownTable, show
from swarm.plugins.study.report.sections import SECTIONS
from swarm.plugins.study.report.seed_tables import (
    FILES,
    TABLES,
    Put,
    csv_bytes,
    read_tables,
    write_record,
    write_tables,
)
from swarm.store.folder.publish import publish_below

REPORT = "report"
"""Folder of a study, where no other folder is named."""
PAGE = "index.html"
FORMATS = ("png", "svg", "pdf", "csv", "parquet", "tex")
"""What can be written beside the page."""
Forms = Mapping[str, Callable[[], bytes]]
"""One part of the report in each of its formats."""
TEMPLATE = Path(__file__).parent / "assets" / "page.html"
LONGEST_TABLE = 40
"""Rows that the page shows of a table, its files have them all; with more LaTeX breaks it over pages."""


def write_report(
    path: Path,
    study: str,
    output: Path | None = None,
    *,
    window: int | None = None,
    formats: Collection[str] = FORMATS,
) -> Path:
    """Write the report of a study, whether or not all of its runs are finished.

    Args:
        path: the shared folder.
        study: name of the study.
        output: folder to write into; None: `report` in the study's own.
        window: rounds of the moving averages; None: a tenth of the rounds, at most 100.
        formats: which of FORMATS to write beside the page.

    Returns:
        The page's file.

    Raises:
        ExperimentError: there is no such study.
        StoreError: the output cannot be written.
        ConfigError: none of its runs has a round yet, or an unknown format.
    """
    _check(formats)
    evidence = read_evidence(path, study, window)
    if output:
        return _written(evidence, output, partial(publish_below, output, durable=False), formats)
    return _written(evidence, study_folder(path, study) / REPORT, _into_study(path, study), formats)


def write_report_from_tables(
    tables: Path,
    output: Path,
    *,
    window: int | None = None,
    formats: Collection[str] = FORMATS,
) -> Path:
    """Write a report from a study's committed tables: every number of it, without the figures of single agents.

    Args:
        tables: the folder with study.json, runs.csv and the other per-seed tables.
        output: folder to write into.
        window, formats: as for write_report.

    Raises:
        StoreError: the output cannot be written.
        ConfigError: a table is missing or damaged, or an unknown format.
    """
    _check(formats)
    return _written(read_tables(tables, window), output, partial(publish_below, output, durable=False), formats)


def _into_study(path: Path, study: str) -> Put:
    """Others may write there, too: what stands in the way of a file goes, and nothing is followed."""
    store = study_store(path, study)
    return lambda name, data: store.put(f"{REPORT}/{name}", data, durable=False)


def _check(formats: Collection[str]) -> None:
    if unknown := sorted(set(formats) - set(FORMATS)):
        raise ConfigError(f"a report's files are {', '.join(FORMATS)}; got {', '.join(unknown)}")


def _written(evidence: Evidence, folder: Path, put: Put, formats: Collection[str]) -> Path:
    try:
        _write(evidence, put, formats)
    except StoreError as error:
        raise StoreError(f"cannot write the report into {folder}: {error}; see --output") from None
    return folder / PAGE


def _write(evidence: Evidence, put: Put, formats: Collection[str]) -> None:
    if "csv" in formats:
        write_record(evidence, put)  # before anything is drawn: not everywhere can be written
    sections, svgs = contents(evidence), dict[str, str]()
    for part in (part for section in sections for part in section.parts):
        if isinstance(part, ShownTable):
            _write_forms(put, f"{TABLES}/{part.name}", formats, _table_forms(part))
            continue
        with figure_style():
            figure = part.draw()
            svgs[part.name] = svg_text(figure)
            figure.set_layout_engine("none")  # laid out once, for all of its files
            _write_forms(put, f"figures/{part.name}", formats, _figure_forms(figure, svgs[part.name]))
    if "csv" in formats:
        write_tables(evidence, put)
    put(PAGE, render_page(evidence, sections, svgs).encode())


def _figure_forms(figure: Any, svg: str) -> Forms:
    return {
        "svg": lambda: svg_file(svg).encode(),
        "png": lambda: png_bytes(figure),
        "pdf": lambda: pdf_bytes(figure),
    }


def _table_forms(table: ShownTable) -> Forms:
    return {
        "csv": lambda: csv_bytes(table.data),
        "parquet": lambda: table.data.to_parquet(index=False),
        "tex": lambda: latex(table).encode(),
    }


def latex(table: ShownTable) -> str:
    """Returns the cells of the page for `\\input`; the document loads booktabs, and longtable for many rows."""
    frame = pd.DataFrame(map(_harmless, table.rows()), columns=_harmless([column.title for column in table.columns]))
    kinds = "".join("r" if column.numeric else "l" for column in table.columns)
    return frame.to_latex(index=False, escape=True, column_format=kinds, longtable=len(frame) > LONGEST_TABLE)


def _harmless(cells: Sequence[str]) -> list[str]:
    """Names come from a folder that others write to."""
    return [printable(cell) for cell in cells]


def _write_forms(put: Put, name: str, formats: Collection[str], forms: Forms) -> None:
    """Write those of a part's files that are asked for."""
    for form, encoded in forms.items():
        if form in formats:
            put(f"{name}.{form}", encoded())


def contents(evidence: Evidence) -> list[ShownSection]:
    """Returns the sections that the evidence allows; those that ask about what was not done are left out."""
    found = (show(section, evidence) for section in SECTIONS)
    return [section for section in found if section]


def render_page(evidence: Evidence, sections: Sequence[ShownSection], svgs: Mapping[str, str]) -> str:
    """Returns one HTML page that needs nothing else: its style and its figures are in it.

    Names of nodes, tasks and configurations come from a folder that others write to, so everything but the figures that
    were drawn here is escaped.

    Args:
        evidence: what the study left.
        sections: in their order.
        svgs: figure name -> SVG document, for every figure of the sections.
    """
    record, runs = evidence.record, evidence.runs
    finished = int((runs["state"] == FINISHED).sum())
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        sections=sections,
        svgs={name: Markup(inline_svg(svg, name)) for name, svg in svgs.items()},  # drawn here, letters as outlines
        longest_table=LONGEST_TABLE,
        title=record.title or record.study,
        subtitle=f"Study {record.study}: {finished} of {len(runs)} runs finished, {record.nodes} nodes, "
        f"{record.rounds} rounds, {len(record.seeds)} seeds.",
        missing=missing_text(runs),
        footer=f"Runs made by swarm {record.versions.get('swarm', '')}. The figures lie beside this page in figures/, "
        f"the tables in tables/. From {', '.join(FILES.values())} and study.json in there `swarm study report "
        "--from-tables` computes every number of this page again.",
    )
