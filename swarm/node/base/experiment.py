"""The settings that make an experiment what it is: written once by its first node, and compared by every other."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from swarm.config import IDENTITY_DEFAULTS, Settings, variable
from swarm.errors import AlreadyThereError, ExperimentError, ProtocolError, StoreError
from swarm.node.base.context import NodeContext
from swarm.records import files
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.codec import encode
from swarm.wire.messages import ExperimentFile


def read_experiment(run: Run) -> ExperimentFile | None:
    """The experiment's identity, None where nobody has made it yet. Blocking.

    Raises:
        StoreError: the file is there but cannot be understood.
    """
    try:
        return files.read_experiment(run)
    except ProtocolError as error:
        raise StoreError(f"{error}; restore the file, or choose another EXPERIMENT_NAME") from None


def differences(settings: Settings, experiment: ExperimentFile) -> list[str]:
    """One text per setting in which these settings would be another experiment."""
    asked = IDENTITY_DEFAULTS | settings.experiment_identity()
    made = IDENTITY_DEFAULTS | experiment.identity
    return [
        f"{variable(name)} was {made[name]!r}, now {asked[name]!r}"
        for name in asked
        if name in made and made[name] != asked[name]
    ]


def claim_experiment(ctx: NodeContext, versions: dict[str, str]) -> bool:
    """Create the experiment, or make sure that this is the same one. Blocking.

    Returns:
        True if it was created, False if it goes on.

    Raises:
        ExperimentError: the folder holds an experiment with other settings; it is left as it is.
    """
    created = read_experiment(ctx.run) is None
    if created:
        create_experiment(ctx, versions)
    experiment = read_experiment(ctx.run)  # of two that create it at once it may be the other one's
    if experiment and (changed := differences(ctx.settings, experiment)):
        raise ExperimentError(other_experiment(ctx.run, changed))
    return created


def create_experiment(ctx: NodeContext, versions: dict[str, str]) -> None:
    """Say what the experiment is. Nodes with the same settings that do so at once say the same. Blocking.

    Raises:
        StoreError: the file cannot be written.
    """
    identity: dict[str, Any] = ctx.settings.experiment_identity()
    file = ExperimentFile(
        experiment_name=ctx.run.experiment,
        created_at=ctx.clock.wall(),
        created_by=ctx.node_id,
        identity=identity,
        versions=versions,
    )
    with suppress(AlreadyThereError):
        ctx.run.store.put(keys.EXPERIMENT, encode(file), if_absent=True)


def other_experiment(run: Run, changed: list[str]) -> str:
    """What to tell somebody whose settings are not those of the experiment in the folder."""
    return (
        f"{run.store.describe()} holds an experiment with other settings ({'; '.join(changed)}): "
        f"use its settings to go on with it, or choose another --experiment for a new one"
    )
