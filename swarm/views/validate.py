"""Run all checks on a run and say what came out."""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import islice

import msgspec

from swarm.harmless import printable
from swarm.records.expected import NOTHING_EXPECTED, Expected
from swarm.store.run import Run
from swarm.views.checks import CHECKS, notes
from swarm.views.run_records import read_records

SHOWN_PROBLEMS = 5
"""Problems of one check, as text."""
MOST_PROBLEMS = 1000
"""Problems of one check that are held; as many again are counted, and no more are looked for. Rows and files that find
fault cost who writes them nothing."""


class CheckResult(msgspec.Struct, frozen=True):
    """One check."""

    name: str
    ok: bool
    problems: tuple[str, ...]
    """The first MOST_PROBLEMS."""
    more: int = 0
    """Problems beyond them, MOST_PROBLEMS at most."""


class ValidationReport(msgspec.Struct, frozen=True):
    """All checks of a run."""

    experiment: str
    path: str
    ok: bool
    checks: tuple[CheckResult, ...]
    notes: tuple[str, ...]


def validate(
    run: Run, *, partial: bool = False, only: Set[str] = frozenset(), expected: Expected = NOTHING_EXPECTED
) -> ValidationReport:
    """Check a run, against what it has recorded that it was to be, too.

    Args:
        partial: accept a run that has not finished.
        only: the nodes whose records are checked, whatever others have put there; empty: all.
        expected: what it must have been, whatever it has recorded.
    """
    found = read_records(run, partial=partial, only=only, expected=expected)
    checks = tuple(_result(name, check(found)) for name, check in CHECKS.items())
    return ValidationReport(
        experiment=run.experiment,
        path=run.place,
        ok=all(check.ok for check in checks),
        checks=checks,
        notes=tuple(notes(found)),
    )


def _result(name: str, wrong: Iterator[str]) -> CheckResult:
    problems = tuple(islice(wrong, MOST_PROBLEMS))
    return CheckResult(name, not problems, problems, more=sum(1 for _ in islice(wrong, MOST_PROBLEMS)))


def render(report: ValidationReport) -> str:
    """Returns one line per check, below it what is wrong; then the notes and the verdict."""
    lines = []
    for check in report.checks:
        lines.append(f"{'ok  ' if check.ok else 'FAIL'}  {check.name}")
        lines += [f"      {printable(problem)}" for problem in check.problems[:SHOWN_PROBLEMS]]
        if (more := len(check.problems) - SHOWN_PROBLEMS + check.more) > 0:
            least = "at least " if check.more == MOST_PROBLEMS else ""
            lines.append(f"      and {least}{more} more; --json shows {len(check.problems)}")
    lines += [f"note  {printable(note)}" for note in report.notes]
    failed = sum(not check.ok for check in report.checks)
    verdict = "is whole" if report.ok else f"is not whole: {failed} of {len(report.checks)} checks failed"
    return "\n".join([*lines, f"{report.experiment} {verdict}"])
