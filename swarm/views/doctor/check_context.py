"""What every area of the doctor may look at."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from swarm.config import Settings
from swarm.errors import ProtocolError
from swarm.records.read import read_file
from swarm.views.doctor.probe import file_server_skew
from swarm.views.doctor.survey import Survey, survey
from swarm.views.doctor.watching import Watched, watch_nodes
from swarm.wire.layout import Layout
from swarm.wire.messages import ExperimentFile


@dataclass(frozen=True)
class Timing:
    """Time, as arguments; tests put their own in."""

    monotonic: Callable[[], float]
    wall: Callable[[], float]
    sleep: Callable[[float], None]


@dataclass
class CheckContext:
    """One folder, with what several areas need read only once."""

    settings: Settings
    layout: Layout
    seconds: float
    """How long nodes are watched."""
    timing: Timing
    probe: Path | None = None
    """A folder of our own on the file system in question; None where none could be made."""
    probe_problem: str = ""
    """Why not."""

    @property
    def there(self) -> bool:
        """There is such an experiment."""
        return os.path.isdir(self.layout.root)

    @cached_property
    def survey(self) -> Survey:
        """Everything that lies in the experiment's folder but our own probe."""
        return survey(self.layout, ignore=self.probe)

    @cached_property
    def watched(self) -> Watched:
        """What the nodes did while they were watched."""
        return watch_nodes(self.layout, self.seconds, self.timing.monotonic, self.timing.wall, self.timing.sleep)

    @cached_property
    def experiment(self) -> ExperimentFile | None:
        """What makes the experiment what it is; None where that is missing or cannot be read."""
        try:
            return read_file(self.layout.experiment_file, ExperimentFile)
        except ProtocolError:
            return None

    @cached_property
    def server_skew(self) -> float:
        """Seconds by which the file server's clock is ahead of ours; 0.0 where nothing can be written to find out."""
        return file_server_skew(self.probe, self.timing.wall) if self.probe else 0.0

    @property
    def wants_coordinator(self) -> bool:
        """Rounds are opened by a coordinator; what the experiment was made with counts, else the settings."""
        made = self.experiment.identity.get("clock", "coordinator") if self.experiment else self.settings.clock
        return made == "coordinator"
