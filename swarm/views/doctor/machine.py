"""This machine: open files, memory that a node may use; which bars the kernel puts up around the children that score
peers' answers."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Iterator, Sequence

import msgspec

from swarm import forms
from swarm.children import child_environment, module_command
from swarm.planner.free_memory import host_memory
from swarm.planner.open_files import LEAST, limit, raise_limit
from swarm.systems import instead, missing, why_not
from swarm.tasks.bars import Bar
from swarm.views.doctor.check import Area, CheckContext, Finding
from swarm.views.text import size

MACHINE = Area("machine")
MANY_FILES = 1024
"""Open files: below them several nodes in one process may fail."""
LITTLE_MEMORY = 2**30
"""Bytes. One worker with an embedded model takes about 0.6 GB."""


class MachineFacts(msgspec.Struct, frozen=True):
    """This machine, for a node started from this environment."""

    open_files: float
    """How many may be open at once."""
    memory: int | None
    """Bytes that this process may use, within all its control groups; None where the system does not tell."""
    lacking: tuple[str, ...] = ()
    """What nodes need and this system has not."""


def check_machine(context: CheckContext) -> Iterator[Finding]:
    """Open files, memory."""
    yield from judge_machine(measure_machine())


def measure_machine() -> MachineFacts:
    """Ask the system."""
    try:
        free = host_memory()[0]
    except OSError:
        free = None
    raise_limit()  # as nodes do
    return MachineFacts(limit(), free, tuple(missing()))


def installed_version(name: str) -> str:
    """Returns the version of a package here, empty where it is not installed. Nothing of it is imported."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def judge_machine(machine: MachineFacts) -> Iterator[Finding]:
    """Yields the figures as findings."""
    yield _open_files(machine.open_files)
    if machine.lacking:
        yield MACHINE.warning("system", why_not([*machine.lacking]), instead())
    if machine.memory is None:
        yield MACHINE.ok("memory", "this system does not tell")
    elif machine.memory < LITTLE_MEMORY:
        yield MACHINE.warning(
            "memory", f"{size(machine.memory)} available", "run `swarm plan`, and start fewer workers"
        )
    else:
        yield MACHINE.ok("memory", f"{size(machine.memory)} available; `swarm plan` says what a swarm needs")


def _open_files(most: float) -> Finding:
    measured = "as many as one likes" if most == math.inf else f"{most:.0f} may be open"
    fix = "ulimit -n 4096 before starting nodes"
    return MACHINE.graded("open files", measured, fix, failure=most < LEAST, warning=most < MANY_FILES)


SCORING = Area("scoring")
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
        yield SCORING.warning("bars", bars, "run `python -P -m swarm.tasks.bars` to see why")
        return
    if up := [f"{bar.name} ({bar.detail})" for bar in bars if bar.up]:
        yield SCORING.ok("bars", ", ".join(up))
    for bar in bars:
        if not bar.up:
            yield SCORING.warning(bar.name, f"not up: {bar.detail}", _NO_BAR)
