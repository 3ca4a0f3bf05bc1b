"""This machine: whether nodes run on it, and which bars the kernel puts up around the children that score answers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence

import msgspec

from swarm import forms
from swarm.children import child_environment, module_command
from swarm.systems import instead, missing, why_not
from swarm.tasks.bars import Bar
from swarm.views.doctor.check import CheckContext, Finding, ok, warning


def check_machine(context: CheckContext) -> Iterator[Finding]:
    """Yields what nodes need and this system has not; nothing where it has all."""
    if lacking := missing():
        yield warning("system", why_not(lacking), instead())


def installed_version(name: str) -> str:
    """Returns the version of a package here, empty where it is not installed. Nothing of it is imported."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return ""


LONGEST = 30.0
"""Seconds until a child that says nothing is given up."""
_NO_BAR = (
    "Without it, only limits and the audit hook bound a hostile answer. Use a kernel that has it, or give nodes "
    "a user and container of their own"
)


def check_scoring(context: CheckContext) -> Iterator[Finding]:
    """Yields the bars; none where no node runs."""
    if not missing():
        yield from judge_bars(measure_bars())


def measure_bars() -> Sequence[Bar] | str:
    """Put up the bars in a child, as a scoring server does; why it could not be asked, if so."""
    try:
        asked = subprocess.run(
            module_command("swarm.tasks.bars"),
            env=child_environment(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LONGEST,
        )
        return forms.decode(asked.stdout, list[Bar])
    except (OSError, subprocess.TimeoutExpired, msgspec.DecodeError) as error:
        return f"the child that puts them up failed: {error}"


def judge_bars(bars: Sequence[Bar] | str) -> Iterator[Finding]:
    """One finding for those that are up, one for each that is not."""
    if isinstance(bars, str):
        yield warning("bars", bars, "run `python -P -m swarm.tasks.bars` to see why")
        return
    if up := [f"{bar.name} ({bar.detail})" for bar in bars if bar.up]:
        yield ok("bars", ", ".join(up))
    for bar in bars:
        if not bar.up:
            yield warning(bar.name, f"not up: {bar.detail}", _NO_BAR)
