"""Run all checks on a run and say what came out."""

from __future__ import annotations

from collections.abc import Set

import msgspec

from swarm.harmless import printable
from swarm.records.expected import NOTHING, Expected
from swarm.store.run import Run
from swarm.views.checks import CHECKS, notes, read_records

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


def validate(run: Run, *, partial: bool = False, only: Set[str] = frozenset(), expected: Expected = NOTHING) -> Report:
    """Check a run, against what it has recorded that it was to be, too.

    Args:
        partial: accept a run that has not finished.
        only: the nodes whose records are checked, whatever others have put there; empty: all.
        expected: what it must have been, whatever it has recorded.
    """
    found = read_records(run, partial=partial, only=only, expected=expected)
    problems = {name: tuple(check(found)) for name, check in CHECKS.items()}
    return Report(
        experiment=run.experiment,
        path=run.place,
        ok=not any(problems.values()),
        checks=tuple(CheckResult(name, not wrong, wrong) for name, wrong in problems.items()),
        notes=tuple(notes(found)),
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
