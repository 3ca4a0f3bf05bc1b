"""Programs that a command starts and looks after, wherever they run.

Launch ─▶ Backend ─┬ LocalBackend   of a study               a process of this machine, which ends with us
                   └ Elsewhere      a plugin's               a job of a cluster, which goes on without us
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class LogOf(NamedTuple):
    folder: str
    """Beside the experiments of its place, such as `studies/mine`."""
    key: str


@dataclass(frozen=True)
class Launch:
    command: tuple[str, ...]
    environment: Mapping[str, str]
    """All of it; it may hold secrets."""
    place: str
    """The shared place, by the name that all processes have for it."""
    experiment: str
    part: str = ""
    """Which of several programs of one experiment it is; empty for the swarm itself."""
    log: LogOf | None = None
    """None: wherever the backend has the output of programs."""


class Program(Protocol):
    def poll(self) -> int | None:
        """Returns its exit code; None while it runs, or is still to run. Negative: a signal, or nobody knows."""

    def ending(self) -> str:
        """Returns in words how it ended."""

    def note(self) -> str:
        """Returns in words what is to be known of the program while it runs; empty where that is nothing."""

    def send_signal(self, number: int, /) -> None:
        """Ask it to end, if it still runs."""

    def kill(self) -> None:
        """End it at once."""


class Backend(Protocol):
    stays: bool
    """They go on when we end."""

    def start(self, launch: Launch) -> Program:
        """Start one.

        Raises:
            StoreError: its log cannot be written.
            ClusterError: the cluster does not take it.
        """

    def has(self, place: str, experiment: str) -> bool:
        """Tells whether the swarm of an experiment, started earlier, waits for its turn or runs."""
