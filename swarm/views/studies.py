"""Asks plugins for the studies of a place: named sets of its experiments, which no part of the core makes.

    entry points in `swarm.report` ─▶ StudyReader ─▶ names, contents, tables, settings of finished runs

Without such a plugin a place has no studies; docs/plugins.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from swarm import entry_points
from swarm.errors import ConfigError

if TYPE_CHECKING:
    from pandas import DataFrame

    from swarm.config import Settings
    from swarm.views.tables.frames import FrameKind


class StudyContents(NamedTuple):
    """Which runs a study compares."""

    title: str
    rounds: int
    """Of each run."""
    configurations: tuple[str, ...]
    """In the order in which they are shown."""
    runs: tuple[tuple[str, str], ...]
    """The configuration and the experiment of each run."""


class AgainstRequest(NamedTuple):
    """Holds what `swarm up --against` asks of the plugin that compares swarms, an entry point in `swarm.against`."""

    settings: Settings
    """Of the swarm as it is without."""
    nodes: int
    """Its workers."""
    other: str
    """What the other swarm has instead, as it was typed."""
    seeds: int
    """How many: that of the settings, and those after it."""
    flags: Mapping[str, Any]
    """Setting -> value of the flags that were given."""
    config: str | None
    """The settings file."""
    defaults: Mapping[str, Any]
    """Of the command."""
    again: str
    """The command that goes on."""
    dry_run: bool


class StudyReader(Protocol):
    """Is an entry point in `swarm.report`: a module or an object with these functions.

    A place is a folder; a study that is not there is an ExperimentError, an unreadable record a ProtocolError.
    """

    def names(self, place: Path | str) -> Sequence[str]:
        """Returns the names of the studies of a place, sorted."""

    def contents(self, place: Path, study: str) -> StudyContents:
        """Returns which runs a study has."""

    def frame(self, place: Path, study: str, table: FrameKind) -> DataFrame:
        """Returns one table of all runs, with `configuration`, `seed` and `experiment` in front of each row."""

    def finished_runs(self, settings: Settings, study: str) -> list[Settings]:
        """Returns the settings of each finished run of a study in a place, as its record has them."""


def _silent(problem: str) -> None:
    """Says nothing, for who has nobody to say it to."""


def studies(place: Path | str, warn: Callable[[str], None] = _silent) -> list[str]:
    """Returns the names of the studies of a place, sorted.

    Args:
        warn: is given a line for each plugin that reads studies and cannot be had.
    """
    return sorted({name for reader in _readers(warn) for name in reader.names(place)})


def reader_of(place: Path, study: str, warn: Callable[[str], None] = _silent) -> StudyReader:
    """Returns the reader that knows a study, or one that refuses it and says which there are.

    Raises:
        ConfigError: no plugin reads studies.
    """
    known = _readers(warn)
    if not known:
        raise ConfigError(f"study {study!r}: no plugin that reads studies is installed (docs/plugins.md)")
    return next((reader for reader in known if study in reader.names(place)), known[0])


@cache
def _readers(warn: Callable[[str], None]) -> tuple[StudyReader, ...]:
    found = []
    for entry in entry_points.found(entry_points.REPORT).values():
        try:
            found.append(entry_points.load(entry))
        except entry_points.DanglingError as error:
            warn(str(error))
    return tuple(found)
