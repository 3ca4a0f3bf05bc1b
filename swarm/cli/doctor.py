"""`swarm doctor`: what would hurt a swarm in this folder, and how to fix it."""

from __future__ import annotations

import shutil
import signal
import textwrap
from collections import Counter
from contextlib import suppress
from typing import Annotated, NoReturn

from cyclopts import Parameter
from cyclopts.validators import Number

from swarm.cli.flags import CommonFlags, settings_from, settings_to_look
from swarm.cli.say import print_result
from swarm.config import Settings
from swarm.errors import ExperimentError, StoreError
from swarm.harmless import printable
from swarm.store.place import open_place
from swarm.views.doctor.check import Diagnosis, Finding, Verdict
from swarm.views.doctor.examine import examine

_NARROWEST, _WIDEST = 60, 120
_MARGIN = "  "


def doctor(
    *,
    experiment_flags: CommonFlags | None = None,
    seconds: Annotated[float | None, Parameter("--seconds", validator=Number(gt=0, lte=3600))] = None,
    as_json: Annotated[bool, Parameter("--json")] = False,
) -> int:
    """Find what would hurt a swarm in this folder, and how to fix it; exit 1 if something would.

    Args:
        experiment_flags: which experiment; where none is named, none need be there yet.
        seconds: How long nodes are watched; some of their heartbeats if not given.
        as_json: JSON instead of a table.
    """
    signal.signal(signal.SIGTERM, _end)  # so that the probe files go
    try:
        settings = settings_to_look(experiment_flags)
    except StoreError:  # a place that cannot be listed is a finding
        settings = settings_from(experiment_flags)
    _refuse_misspelled(settings)
    diagnosis = examine(settings, seconds=seconds)
    width = min(_WIDEST, max(_NARROWEST, shutil.get_terminal_size((_WIDEST, 24)).columns))
    print_result(diagnosis, lambda found: render(found, width), as_json=as_json)
    return 0 if diagnosis.ok else 1


def _refuse_misspelled(settings: Settings) -> None:
    """An experiment that is named is there, unless it is to be the first; a place that cannot be listed is a finding.

    Raises:
        ExperimentError: it is not, and others are.
    """
    place, name = open_place(settings.place), settings.experiment
    with suppress(StoreError):
        if name != Settings.experiment and (there := place.experiments()) and name not in there:
            raise ExperimentError(
                place.without(name, "; without --experiment the only one that is not over is examined")
            )


def _end(number: int, frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def render(diagnosis: Diagnosis, width: int = _WIDEST) -> str:
    """Returns a table of verdict, check and figure, each trouble with its fix below it; then the verdict of all."""
    names = [f"{finding.area}: {finding.check}" for finding in diagnosis.findings]
    column = max(map(len, names), default=0)
    lines = [f"{diagnosis.experiment} in {printable(diagnosis.path)}", ""]
    for name, finding in zip(names, diagnosis.findings, strict=True):
        lines += _lines(name.ljust(column), finding, width)
    return "\n".join([*lines, "", _verdict(diagnosis)])


def _lines(name: str, finding: Finding, width: int) -> list[str]:
    head = f"{finding.verdict.value.ljust(7)}{_MARGIN}{name}{_MARGIN}"
    wrapped = _wrap(printable(finding.measured), max(20, width - len(head))) or [""]
    figures = [head + wrapped[0], *(" " * len(head) + line for line in wrapped[1:])]
    start = " " * 7 + _MARGIN + "-> "
    fix = _wrap(printable(finding.fix), width, start, " " * len(start))
    return figures + fix


def _verdict(diagnosis: Diagnosis) -> str:
    counted = Counter(finding.verdict for finding in diagnosis.findings)
    figures = ", ".join(f"{counted[verdict]} {verdict.value}" for verdict in Verdict)
    return f"{'nothing here stops a swarm' if diagnosis.ok else 'fix the failures first'}: {figures}"


def _wrap(text: str, width: int, first: str = "", others: str = "") -> list[str]:
    """Lines, the first of which begins with `first`; links and options stay whole."""
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)
