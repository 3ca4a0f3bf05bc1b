"""`swarm study list`, `report` and `compare`: how far studies are, what one shows, and two of anything side by side."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from swarm.cli.flags import CommonFlags, PathFlag, settings_from
from swarm.cli.say import say
from swarm.errors import ConfigError, ProtocolError
from swarm.extras import lacking
from swarm.harmless import printable
from swarm.plugins.study.record import read_study, studies
from swarm.plugins.study.run.run_folder import progress_of_runs
from swarm.views.text import shorten, table

NEEDED = ("matplotlib", "pandas", "scipy")
"""The libraries of the extra `analysis`; what uses them is imported by the commands, not by their help."""


def list_studies(*, path: PathFlag = None) -> None:
    """Show the studies of a shared folder."""
    folder = _folder(path)
    rows = [_row(folder, name) for name in studies(folder)]
    if not rows:
        say(f"no study in {folder}; begin one with `swarm study run`")
        return
    say(table(("study", "runs", "finished", "rounds", "configurations", "title"), rows, left=(0, 4, 5)))


def _row(folder: Path, name: str) -> list[str]:
    try:
        record = read_study(folder, name)
    except ProtocolError as error:
        return [shorten(name, 32), "-", "-", "-", "-", shorten(printable(str(error)), 60)]
    found = progress_of_runs(record, folder).values()
    finished = sum(run.is_finished(record.rounds) for run in found)
    names = shorten(" ".join(one.name for one in record.configurations), 40)
    share = sum(min(run.rounds_done, record.rounds) for run in found) / max(1, record.rounds * len(record.runs))
    return [shorten(name, 32), str(len(record.runs)), str(finished), f"{share:.0%}", names, shorten(record.title, 40)]


def report(
    study: str | None = None,
    /,
    *,
    path: PathFlag = None,
    output: Path | None = None,
    window: int | None = None,
    formats: Annotated[str, Parameter("--format")] = "png,svg,pdf,csv",
    from_tables: Path | None = None,
) -> None:
    """Write what a study shows: one Markdown page, figures and tables.

    Args:
        study: Name of the study.
        output: Folder to write into; without one, report/ in the study's own folder, or here for --from-tables.
        window: Rounds of the moving averages; without one, a tenth of the rounds, at most 100.
        formats: Which files to write beside the page, separated by commas.
        from_tables: Instead of a study: the tables of an earlier report, from which every number is computed again.
    """
    need_analysis("the report of a study")
    from swarm.plugins.study.report.evidence import read_evidence
    from swarm.plugins.study.report.seed_tables import read_tables
    from swarm.plugins.study.report.write import into_folder, into_study, write_report

    if (study is None) == (from_tables is None):
        raise ConfigError("name either a study, or a folder of tables with --from-tables")
    if from_tables is not None:
        evidence, place = read_tables(from_tables, window), into_folder(output or Path("report"))
    else:
        folder, name = _folder(path), str(study)
        evidence = read_evidence(folder, name, window)
        place = into_folder(output) if output else into_study(folder, name)
    page = write_report(evidence, *place, _words(formats))
    say(f"wrote {page}")


def compare(a: str, b: str, /, *, path: PathFlag = None) -> None:
    """Compare two experiments, two studies, or two configurations of studies, B against A.

    Args:
        a: An experiment, a study, or STUDY:CONFIGURATION such as sapo:8/0; what B is measured by.
        b: Likewise.
    """
    need_analysis("a comparison")
    from swarm.plugins.study.analysis.compare import compare_experiments
    from swarm.plugins.study.cli.compare_text import render_comparison

    say("\n\n".join(render_comparison(found) for found in compare_experiments(_folder(path), a, b)))


def need_analysis(what: str) -> None:
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise lacking(what, ", ".join(missing), "analysis")


def _folder(path: str | None) -> Path:
    return settings_from(CommonFlags(path=path)).shared_folder


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
