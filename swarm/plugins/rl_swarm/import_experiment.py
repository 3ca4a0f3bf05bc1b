"""`swarm experiment import`: takes a run that another program made over into the shared folder, to read."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from swarm.cli.flags import CommonFlags, PathFlag, settings_from
from swarm.cli.say import say
from swarm.config import EXPERIMENT_NAME
from swarm.errors import ConfigError, ExperimentError
from swarm.harmless import printable
from swarm.plugins.rl_swarm.importing import ImportFile, import_run
from swarm.records.listing import entries
from swarm.records.made_by import made_by
from swarm.store.place import Place, open_folder, open_place
from swarm.store.run import Run
from swarm.systems import require_for
from swarm.wire import keys

WRITER = "import"
"""Who writes."""


def import_experiment(
    source: Annotated[str, Parameter(help="The folder of a run, or the name of an experiment of --path.")],
    /,
    *,
    name: Annotated[str | None, Parameter("--as", help="Of the new experiment; without one, the source's.")] = None,
    path: PathFlag = None,
) -> None:
    """Write a run that rl-swarm made as an experiment of this program, its rewards as means per completion.

    The source is not changed. All views take the new experiment; no node starts in it. import.json in it says where
    each number came from.
    """
    require_for("`swarm experiment import`")
    place = open_place(settings_from(CommonFlags(path=path)).place)
    there = place.experiments()
    found = place.open(source) if source in there else _in_folder(source, place)
    if not (maker := made_by(found)):
        raise ExperimentError(f"{found.store.describe()} was not made by rl-swarm: there is nothing to import")
    if found.store.stat(keys.EXPERIMENT):
        raise ExperimentError(f"{found.store.describe()} is an import already: all views take it as it is")
    run = place.open(_new_name(name or found.experiment, there), writer=WRITER)
    if run.archive and any(entries(run.archive, "")):  # else it would be this experiment's, and go where this fails
        raise ConfigError(
            f"there is an archive of an experiment {run.experiment!r} already ({run.archive.describe()}), which stays: "
            "name another with --as"
        )
    try:
        record = import_run(found.store, run, time.time())
    except BaseException:
        place.remove(run.experiment)
        raise
    say(_told(record, run, maker))


def _in_folder(source: str, place: Place) -> Run:
    folder = Path(source)
    if not folder.is_dir():
        raise ExperimentError(f"{source!r} is neither an experiment of {place.describe()} nor a folder: name one")
    return open_folder(folder)


def _new_name(wanted: str, there: Collection[str]) -> str:
    if not EXPERIMENT_NAME.fullmatch(wanted):
        raise ConfigError(f"--as expected a folder name of letters, digits, '_', '-' and '.', got {wanted!r}")
    if wanted in there:
        raise ConfigError(f"there is an experiment {wanted!r} already, which stays: name another with --as")
    return wanted


def _told(record: ImportFile, run: Run, maker: str) -> str:
    known = sum(sum(node.rewards_from.values()) for node in record.nodes.values())
    unknown = sum(len(node.unknown) for node in record.nodes.values())
    lines = [
        f"imported {printable(record.source)}, made by {maker}, as {run.experiment}: {known} rewards as means "
        "per completion",
        f"where each number came from: {run.store.describe(keys.IMPORT)}",
    ]
    if unknown:
        lines.insert(1, f"{unknown} rewards cannot be known and were left out; the file below says why of each")
    if record.not_taken:
        lines.append(f"{len(record.not_taken)} files could not be read, such as {printable(record.not_taken[0])}")
    return "\n".join(lines)
