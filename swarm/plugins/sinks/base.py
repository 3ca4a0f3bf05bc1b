"""Sink: where the rows of a run go besides the place; what it is opened for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from swarm.harmless import printable
from swarm.records.files import known_experiment
from swarm.store.run import Run
from swarm.types import RoundKey
from swarm.wire.messages import ExperimentFile

MOST_STAGES = 16
"""Stages of a round."""
MOST_SETTINGS, LONGEST_SETTING = 64, 200
BEFORE_ALL = RoundKey(-1)
"""Before any row."""
Scalar = str | int | float | bool


@dataclass(frozen=True)
class SinkRun:
    """Says what a sink is opened for."""

    experiment: str
    name: str
    """The experiment, and when it was begun: one of the same name that is begun anew is another one."""
    folder: Path
    """Folder for sinks that keep files of their own; never in the shared place."""
    stages: int = 1
    """Stages of a round."""
    config: Mapping[str, Scalar] = field(default_factory=dict)
    """What makes the experiment."""

    def step(self, key: RoundKey) -> int:
        """Returns the row's place where steps are single numbers that grow; the round itself where it has one stage."""
        return key.round * self.stages + min(key.stage, self.stages - 1)

    def key(self, step: int) -> RoundKey:
        """Returns the round and stage of a step."""
        return RoundKey(*divmod(step, self.stages))


class Sink(Protocol):
    """Opened for one run. Its own library may raise anything; whoever calls it catches."""

    def written(self, node: str) -> RoundKey:
        """Returns the last row of a node that it keeps, by whichever process; BEFORE_ALL: none."""

    def row(self, node: str, key: RoundKey, at: float, values: Mapping[str, float]) -> None:
        """Take a row; those of a node come in the order of their keys.

        Args:
            at: when it was written, Unix seconds.
            values: name -> finite number.
        """

    def flush(self) -> None:
        """Keep what was taken, as far as the library can be asked to."""

    def close(self) -> None:
        """Keep it all."""


def sink_run(run: Run, folder: Path) -> SinkRun:
    """Returns what a sink is opened for, of a run that has been begun.

    Raises:
        StoreError: the place cannot be read.
    """
    if (file := known_experiment(run)) is None:
        return SinkRun(run.experiment, run.experiment, folder)
    stages = file.identity.get("max_stages")
    return SinkRun(
        run.experiment,
        f"{run.experiment}{_begun(file)}",
        folder,
        stages if type(stages) is int and 0 < stages <= MOST_STAGES else 1,
        dict(list(_scalars(file).items())[:MOST_SETTINGS]),
    )


def _begun(file: ExperimentFile) -> str:
    if not 0 < file.created_at < 2**32:
        return ""
    return time.strftime("-%Y%m%d-%H%M%S", time.gmtime(file.created_at))


def _scalars(file: ExperimentFile) -> dict[str, Scalar]:
    shown = {printable(name)[:LONGEST_SETTING]: value for name, value in sorted(file.identity.items())}
    short = {name: printable(value)[:LONGEST_SETTING] for name, value in shown.items() if isinstance(value, str)}
    return short | {name: value for name, value in shown.items() if isinstance(value, bool | int | float)}
