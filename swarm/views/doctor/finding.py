"""Findings: what a check found, in the form in which it is told."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from swarm.views.text import printable


class Verdict(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    """The swarm goes on, but slower, blinder or with less than it could have."""
    FAILURE = "failure"
    """The swarm will stop, lose something, or do something wrong."""


class Finding(msgspec.Struct, frozen=True):
    """One check."""

    area: str
    """Such as `folder` or `nodes`."""
    check: str
    """What was checked."""
    verdict: Verdict
    measured: str
    """The figure, with its unit and what it was held against."""
    fix: str = ""
    """One line that fixes it; empty where nothing is wrong."""


class Area(msgspec.Struct, frozen=True):
    """Makes the findings of one area. Names of files and nodes are anybody's, so all text is made printable here."""

    name: str

    def ok(self, check: str, measured: str) -> Finding:
        return Finding(self.name, check, Verdict.OK, printable(measured))

    def warning(self, check: str, measured: str, fix: str) -> Finding:
        return Finding(self.name, check, Verdict.WARNING, printable(measured), printable(fix))

    def failure(self, check: str, measured: str, fix: str) -> Finding:
        return Finding(self.name, check, Verdict.FAILURE, printable(measured), printable(fix))


class Diagnosis(msgspec.Struct, frozen=True):
    """All that was found."""

    experiment: str
    path: str
    ok: bool
    """There is no failure; there may be warnings."""
    findings: tuple[Finding, ...]
