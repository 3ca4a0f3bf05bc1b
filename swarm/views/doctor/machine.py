"""This machine: versions, open files, memory that a node may use."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator

import msgspec

from swarm.planner.free_memory import host_memory
from swarm.planner.open_files import LEAST, limit, raise_limit
from swarm.systems import instead, missing, why_not
from swarm.views.doctor.check import Area, CheckContext, Finding
from swarm.views.text import size

AREA = Area("machine")
DISTRIBUTION = "swarm-sapo"
OLDEST_PYTHON = (3, 11)
MANY_FILES = 1024
"""Open files: below them several nodes in one process may fail."""
LITTLE_MEMORY = 2**30
"""Bytes. One worker with an embedded model takes about 0.6 GB."""


class Package(msgspec.Struct, frozen=True):
    """One thing that swarm needs."""

    name: str
    wanted: str
    """Such as `>=2.11,<2.14`."""
    there: str
    """Empty where it is not installed."""


class MachineFacts(msgspec.Struct, frozen=True):
    """This machine, for a node started from this environment."""

    python: tuple[int, int]
    packages: tuple[Package, ...]
    open_files: float
    """How many may be open at once."""
    memory: int | None
    """Bytes that this process may use, within all its control groups; None where the system does not tell."""
    lacking: tuple[str, ...] = ()
    """What nodes need and this system has not."""


def check(context: CheckContext) -> Iterator[Finding]:
    """Versions, open files, memory."""
    yield from judge(measure())


def measure() -> MachineFacts:
    """Ask the system; no package is imported for it."""
    major, minor = platform.python_version_tuple()[:2]
    try:
        free = host_memory()[0]
    except OSError:
        free = None
    raise_limit()  # as nodes do
    return MachineFacts((int(major), int(minor)), packages(), limit(), free, tuple(missing()))


def packages() -> tuple[Package, ...]:
    """Returns the packages that swarm needs in any case, each with its installed version; none where swarm is not
    installed."""
    from importlib.metadata import PackageNotFoundError, requires  # here: it imports the half of `email`

    from packaging.requirements import Requirement

    try:
        needed = [line for line in requires(DISTRIBUTION) or () if "extra ==" not in line]
    except PackageNotFoundError:
        return ()
    wanted = [Requirement(line) for line in needed]
    return tuple(Package(one.name, str(one.specifier), installed_version(one.name)) for one in wanted)


def installed_version(name: str) -> str:
    """Returns the version of a package here, empty where it is not installed. Nothing of it is imported."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def satisfies(there: str, wanted: str) -> bool:
    """Tells whether a version is within bounds such as `>=2.11,<2.14`; pre-releases count as others do."""
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(wanted).contains(there, prereleases=True)


def judge(machine: MachineFacts) -> Iterator[Finding]:
    """Yields the figures as findings."""
    yield _python(machine.python)
    yield _packages(machine.packages)
    yield _open_files(machine.open_files)
    if machine.lacking:
        yield AREA.warning("system", why_not([*machine.lacking]), instead())
    if machine.memory is None:
        yield AREA.ok("memory", "this system does not tell")
    elif machine.memory < LITTLE_MEMORY:
        yield AREA.warning("memory", f"{size(machine.memory)} available", "run `swarm plan`, and start fewer workers")
    else:
        yield AREA.ok("memory", f"{size(machine.memory)} available; `swarm plan` says what a swarm needs")


def _python(python: tuple[int, int]) -> Finding:
    got, wanted = (".".join(map(str, number)) for number in (python, OLDEST_PYTHON))
    if python < OLDEST_PYTHON:
        return AREA.failure("Python", f"{got}, at least {wanted} is needed", f"install Python {wanted} or newer")
    return AREA.ok("Python", got)


def _packages(found: tuple[Package, ...]) -> Finding:
    wrong = [p for p in found if not p.there or not satisfies(p.there, p.wanted)]
    if not found:
        return AREA.warning(
            "packages", "swarm is not installed here, so nothing says what it needs", "pip install -e ."
        )
    if not wrong:
        return AREA.ok("packages", f"{len(found)} needed, all within their ranges")
    named = ", ".join(f"{p.name} {p.there or 'missing'} (needs {p.wanted or 'any'})" for p in wrong)
    return AREA.failure("packages", named, "pip install " + " ".join(f"'{p.name}{p.wanted}'" for p in wrong))


def _open_files(most: float) -> Finding:
    measured = "as many as one likes" if most == math.inf else f"{most:.0f} may be open"
    fix = "ulimit -n 4096 before starting nodes"
    return AREA.graded("open files", measured, fix, failure=most < LEAST, warning=most < MANY_FILES)
