"""`swarm study report`: a study's folder becomes one page, figures and tables.

    study.json, metrics, judge ─Evidence─▶ sections ─▶ index.html
                                              ├ figures ─▶ figures/{name}.png, .svg
                                              └ tables ──▶ tables/{name}.csv, .parquet

The same folder gives the same bytes: nothing here asks for the time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from swarm.errors import ConfigError, StoreError
from swarm.study.record import study_folder
from swarm.study.report.contents import contents
from swarm.study.report.evidence import Evidence, read_evidence
from swarm.study.report.figure_style import figure_style, png_bytes, svg_file, svg_text
from swarm.study.report.page import render_page
from swarm.study.report.progress import FINISHED, missing_text
from swarm.study.report.sections import Picture, Section, Table

FORMATS = ("png", "svg", "csv", "parquet")
"""What can be written beside the page."""


def write_report(
    path: Path, study: str, output: Path | None = None, *, window: int | None = None, formats: Collection[str] = FORMATS
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
        StoreError: there is no such study, or the output cannot be written.
        ConfigError: none of its runs has a round yet, or an unknown format.
    """
    if unknown := sorted(set(formats) - set(FORMATS)):
        raise ConfigError(f"a report's files are {', '.join(FORMATS)}; got {', '.join(unknown)}")
    evidence = read_evidence(path, study, window)
    folder = output or study_folder(path, study) / "report"
    try:
        folder.mkdir(parents=True, exist_ok=True)  # before anything is drawn
        return _write(folder, evidence, formats)
    except OSError as error:
        raise StoreError(f"cannot write the report into {folder}: {error.strerror or error}; see --output") from None


def _write(folder: Path, evidence: Evidence, formats: Collection[str]) -> Path:
    with figure_style():
        sections = contents(evidence)
        svgs = {picture.name: svg_text(picture.figure) for picture in _pictures(sections)}
        _write_figures(folder / "figures", _pictures(sections), svgs, formats)
    _write_tables(folder / "tables", _tables(sections), formats)
    return _write_page(folder / "index.html", evidence, sections, svgs)


def _pictures(sections: Sequence[Section]) -> list[Picture]:
    return [part for section in sections for part in section.parts if isinstance(part, Picture)]


def _tables(sections: Sequence[Section]) -> list[Table]:
    return [part for section in sections for part in section.parts if isinstance(part, Table)]


def _write_figures(
    folder: Path, pictures: Sequence[Picture], svgs: Mapping[str, str], formats: Collection[str]
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for picture in pictures:
        if "svg" in formats:
            (folder / f"{picture.name}.svg").write_text(svg_file(svgs[picture.name]), encoding="utf-8")
        if "png" in formats:
            (folder / f"{picture.name}.png").write_bytes(png_bytes(picture.figure))


def _write_tables(folder: Path, tables: Sequence[Table], formats: Collection[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for table in tables:
        if "csv" in formats:
            table.data.to_csv(folder / f"{table.name}.csv", index=False)
        if "parquet" in formats:
            table.data.to_parquet(folder / f"{table.name}.parquet", index=False)


def _write_page(file: Path, evidence: Evidence, sections: Sequence[Section], svgs: Mapping[str, str]) -> Path:
    record, runs = evidence.record, evidence.progress
    finished = int((runs["state"] == FINISHED).sum())
    page = render_page(
        sections,
        svgs,
        title=record.title or record.study,
        subtitle=f"Study {record.study}: {finished} of {len(runs)} runs finished, {record.nodes} nodes, "
        f"{record.rounds} rounds, {len(record.seeds)} seeds.",
        missing=missing_text(runs),
        footer=f"Made from the shared folder alone by swarm {record.versions.get('swarm', '')}. The figures lie beside "
        "this page in figures/, the tables in tables/.",
    )
    file.write_text(page, encoding="utf-8")
    return file
