"""What makes an experiment what it is, written once and then held to."""

from __future__ import annotations

from typing import Any

from swarm.config import IDENTITY_DEFAULTS, Settings, variable
from swarm.errors import ExperimentError, ProtocolError, StoreError
from swarm.node.base.clock import Clock
from swarm.records.read import read_file
from swarm.store.folder.publish import publish
from swarm.wire.codec import encode
from swarm.wire.layout import Layout
from swarm.wire.messages import ExperimentFile


def read_experiment(layout: Layout) -> ExperimentFile | None:
    """The experiment's identity, None where nobody has made it yet.

    Raises:
        StoreError: the file is there but cannot be understood.
    """
    try:
        return read_file(layout.experiment_file, ExperimentFile)
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


def claim_experiment(settings: Settings, layout: Layout, node_id: str, clock: Clock, versions: dict[str, str]) -> bool:
    """Create the experiment, or make sure that this is the same one. Blocking.

    Returns:
        True if it was created, False if it goes on.

    Raises:
        ExperimentError: the folder holds an experiment with other settings; it is left as it is.
    """
    created = read_experiment(layout) is None
    if created:
        create_experiment(settings, layout, node_id, clock, versions)
    experiment = read_experiment(layout)  # of two that create it at once the last one has its way
    if experiment and (changed := differences(settings, experiment)):
        raise ExperimentError(other_experiment(layout, changed))
    return created


def create_experiment(settings: Settings, layout: Layout, node_id: str, clock: Clock, versions: dict[str, str]) -> None:
    """Say what the experiment is. Nodes with the same settings that do so at once say the same. Blocking.

    Raises:
        StoreError: the file cannot be written.
    """
    identity: dict[str, Any] = settings.experiment_identity()
    file = ExperimentFile(
        experiment_name=layout.experiment,
        created_at=clock.wall(),
        created_by=node_id,
        identity=identity,
        versions=versions,
    )
    publish(layout.experiment_file, encode(file), layout.temporary(node_id))


def other_experiment(layout: Layout, changed: list[str]) -> str:
    """What to tell somebody whose settings are not those of the experiment in the folder."""
    return (
        f"{layout.root} holds an experiment with other settings ({'; '.join(changed)}): "
        f"use its settings to go on with it, or choose another --experiment for a new one"
    )
