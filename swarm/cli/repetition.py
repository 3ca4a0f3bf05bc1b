"""`swarm up --from EXPERIMENT`: the swarm that made an experiment, once more.

    logs/{node}/starts.jsonl ─▶ settings of every node, as it was started last ─▶ below flags, environment and file

The workers keep their names, for the questions that a node asks itself follow from its name.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from swarm.cli.flags import CommonFlags, as_settings
from swarm.cli.local_swarm import OURS, LocalSwarm
from swarm.cli.say import warn
from swarm.config import NOBODY, Settings, load_settings, refuse_unsafe, sources_of
from swarm.config.settings import FIELDS
from swarm.config.sources import Given, parse
from swarm.errors import ExperimentError
from swarm.harmless import printable
from swarm.provenance import made_with
from swarm.records.made_by import refuse_foreign
from swarm.records.starts import WHERE, changed_makings, last_starts
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.wire.messages import NodeStart

NOT_REPEATED = (*WHERE, "test_mode", "standby", "expected_workers", "device_lease")
"""Settings that say where a node was, that follow from how it is started, or from which others follow that are
recorded themselves."""

MOST_WORKERS = 64
"""That are started again: each is a process."""


class Repetition(NamedTuple):
    """A swarm once more."""

    swarm: LocalSwarm
    base: Given
    """The settings that it shares, with where they came from."""
    changed: list[str]
    """What beside the settings is not what it was then: libraries, code, models, hardware."""


def repetition(source: str, given_flags: CommonFlags | None, in_process: bool) -> Repetition:
    """Returns the swarm of an earlier experiment.

    Args:
        source: an experiment of the same shared folder, or the path of one's folder.
        given_flags: what is given now; it counts above what was then.

    Raises:
        ExperimentError: there is no such experiment, or none of its workers has a record of its start.
        ConfigError: a recorded setting is not one that this version can have, or names code that nobody here named.
    """
    given_flags = given_flags or CommonFlags()
    run = _open(source, given_flags)
    starts = last_starts(run)
    workers = [start for start in starts if start.role == "worker"]
    if not workers:
        raise ExperimentError(
            f"--from {source}: expected a logs/NODE/starts.jsonl of its workers in {run.store.describe()}, got none: "
            f"it was made by a version that kept no such record, or never began; give its settings yourself"
        )
    if len(workers) > MOST_WORKERS:
        raise ExperimentError(
            f"--from {source}: {len(workers)} workers have a record of their start in {run.store.describe()}, more "
            f"than the {MOST_WORKERS} that are started from a folder that anybody may write to: `swarm status "
            f"--started --experiment {run.experiment}` shows them; start those that you mean with --config"
        )
    if gone := sorted({name for start in workers for name in start.settings} - FIELDS.keys()):
        warn(f"--from {source}: recorded there, and no setting of this version: {printable(', '.join(gone))[:400]}")
    clock = next((start for start in starts if start.role == "coordinator"), workers[0])
    models = tuple(model for start in workers for model in _models(start))
    again: Given = {"experiment": (f"{run.experiment}-again", OURS)}
    base: Given = {**_recorded(clock), "model": (models, _origin(clock)), **again}
    shared = _here(_load(given_flags, base), len(workers))
    repeated = tuple(
        replace(
            _here(_load(given_flags, {**_recorded(start), **again}), len(workers)),
            role="worker",
            node_id=start.node_id,
            model=(model,),
            mirror=None,
        )
        for start, model in zip(workers, itertools.cycle(shared.model), strict=False)
    )
    changed = [
        text
        for start, worker in zip(workers, repeated, strict=True)
        for text in changed_makings(start, made_with(worker, NOBODY))
    ]
    return Repetition(LocalSwarm(shared, repeated, in_process), base, list(dict.fromkeys(changed)))


def _open(source: str, given_flags: CommonFlags) -> Run:
    """`demo`, or `/mnt/shared/experiments/demo`."""
    folder = Path(source).expanduser()
    if len(folder.parts) == 1:
        run = open_place(_load(given_flags, {}).place).open(source)
    else:
        run = open_place(folder.absolute().parent.parent).open(folder.name)
    refuse_foreign(run)
    return run


def _load(given_flags: CommonFlags, base: Given) -> Settings:
    named = sources_of(as_settings(given_flags), os.environ, given_flags.config)
    refuse_unsafe({name: value for name, value in base.items() if name not in named})
    return load_settings(as_settings(given_flags), os.environ, given_flags.config, base=base)


def _here(settings: Settings, workers: int) -> Settings:
    return replace(settings, path=settings.place, expected_workers=workers)


def _models(start: NodeStart) -> tuple[str, ...]:
    models: tuple[str, ...] = parse("model", start.settings.get("model", ()), _origin(start))
    return models


def _origin(start: NodeStart) -> str:
    return f"the experiment {start.experiment}"


def _recorded(start: NodeStart) -> Given:
    values = {name: value for name, value in start.settings.items() if name in FIELDS}
    return {name: (value, _origin(start)) for name, value in values.items() if name not in NOT_REPEATED}
