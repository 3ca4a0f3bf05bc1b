"""`swarm study report` and `swarm study compare`: what a study shows, as a page, and two of anything as a table."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from swarm.cli.flags import CommonFlags, settings_from
from swarm.cli.say import say
from swarm.errors import ConfigError

NEEDED = ("matplotlib", "pandas", "pyarrow", "scipy")
"""The libraries of the extra `analysis`; what uses them is imported by the commands, not by their help."""


def report(
    study: str,
    /,
    *,
    path: str | None = None,
    output: Path | None = None,
    window: int | None = None,
    formats: Annotated[str, Parameter("--format")] = "png,svg,csv,parquet",
) -> None:
    """Write what a study shows: one HTML page, figures and tables.

    Args:
        study: Name of the study.
        path: The shared folder.
        output: Folder to write into; without one, report/ in the study's own folder.
        window: Rounds of the moving averages; without one, a tenth of the rounds, at most 100.
        formats: Which files to write beside the page, separated by commas.
    """
    _need_analysis("the report of a study")
    from swarm.study.report.write import write_report

    page = write_report(_folder(path), study, output, window=window, formats=_words(formats))
    say(f"wrote {page}")


def compare(a: str, b: str, /, *, path: str | None = None) -> None:
    """Compare two experiments, two studies, or two configurations of studies, B against A.

    Args:
        a: An experiment, a study, or STUDY:CONFIGURATION such as sapo:8/0; what B is measured by.
        b: Likewise.
        path: The shared folder.
    """
    _need_analysis("a comparison")
    from swarm.cli.compare_text import render_comparison
    from swarm.study.analysis.compare import compare_experiments

    say("\n\n".join(render_comparison(found) for found in compare_experiments(_folder(path), a, b)))


def _need_analysis(what: str) -> None:
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise ConfigError(f"{what} needs {', '.join(missing)}, not installed: pip install 'swarm-sapo[analysis]'")


def _folder(path: str | None) -> Path:
    return settings_from(CommonFlags(path=path), os.environ).shared_folder


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
