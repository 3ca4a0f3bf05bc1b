"""Run all checks on a run's folder and say what came out."""

from __future__ import annotations

import msgspec

from swarm.views.checks import CHECKS, notes
from swarm.views.run_records import read_run
from swarm.views.text import printable
from swarm.wire.layout import Layout

SHOWN_PROBLEMS = 5
"""Of one check, as text; JSON has them all."""


class CheckResult(msgspec.Struct, frozen=True):
    """One check."""

    name: str
    ok: bool
    problems: tuple[str, ...]


class Report(msgspec.Struct, frozen=True):
    """All checks of a run."""

    experiment: str
    path: str
    ok: bool
    checks: tuple[CheckResult, ...]
    notes: tuple[str, ...]


def validate(layout: Layout, *, partial: bool = False) -> Report:
    """Check a run's folder.

    Args:
        partial: accept a run that has not finished.
    """
    run = read_run(layout, partial=partial)
    problems = {name: tuple(check(run)) for name, check in CHECKS.items()}
    return Report(
        experiment=layout.experiment,
        path=str(layout.path),
        ok=not any(problems.values()),
        checks=tuple(CheckResult(name, not found, found) for name, found in problems.items()),
        notes=tuple(notes(run)),
    )


def render(report: Report) -> str:
    """One line per check, below it what is wrong; then the notes and the verdict."""
    lines = []
    for check in report.checks:
        lines.append(f"{'ok  ' if check.ok else 'FAIL'}  {check.name}")
        lines += [f"      {printable(problem)}" for problem in check.problems[:SHOWN_PROBLEMS]]
        if len(check.problems) > SHOWN_PROBLEMS:
            lines.append(f"      and {len(check.problems) - SHOWN_PROBLEMS} more; --json shows all")
    lines += [f"note  {printable(note)}" for note in report.notes]
    failed = sum(not check.ok for check in report.checks)
    verdict = "is whole" if report.ok else f"is not whole: {failed} of {len(report.checks)} checks failed"
    return "\n".join([*lines, f"{report.experiment} {verdict}"])
