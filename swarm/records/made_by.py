"""Tells who made a run: nodes of this program, or another one that leaves a folder of nearly the same names.

    experiment.json                          what its `made_by` says; nodes of this program where it says nothing
    else progress_{node}.json at the top, or
    a clock with a round and no version      rl-swarm
    else                                     nodes of this program, or nobody yet

Whoever looks opens a run by `as_ours`, and reads it then as any other. A node refuses to start in a run that is not its
own kind's (`refuse_foreign`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from swarm.errors import ExperimentError, ProtocolError
from swarm.records.files import SMALL_FILE, maker_of, read_experiment
from swarm.records.growing import parse_line
from swarm.records.listing import entries
from swarm.records.rl_swarm.nodes import NOT_RECORDED
from swarm.records.rl_swarm.run import PROGRESS
from swarm.records.rl_swarm.store import RL_SWARM, RlSwarmStore
from swarm.store.base import PAGE, Store
from swarm.store.run import Run
from swarm.wire import keys

_OURS = {"schema_version", "experiment_name", "updated_by"}
"""What every clock of this program has; rl-swarm's first one has a name, its later ones a writer, none a version."""


def is_rl_swarm(top: Collection[str], clock: bytes | None) -> bool:
    """Tells whether rl-swarm made a run without experiment.json.

    Args:
        top: the names at the top of its folder.
        clock: its state/current_state.json; None: there is none that can be read.
    """
    if any(name.startswith(PROGRESS) and keys.node_of(name.removeprefix(PROGRESS)) for name in top):
        return True
    said = parse_line(clock, dict[str, Any]) if clock is not None else None
    return said is not None and {"round", "stage"} <= said.keys() and not said.keys() >= _OURS


def made_by(run: Run) -> str:
    """RL_SWARM, or "" for a run of this program's nodes, or of nobody yet. Raises StoreError: the place fails."""
    if isinstance(run.store, RlSwarmStore):
        return RL_SWARM
    if run.store.stat(keys.EXPERIMENT) is not None:
        return _said(run)
    top = [entry.name for _, entry in zip(range(PAGE), entries(run.store, ""), strict=False)]
    return RL_SWARM if is_rl_swarm(top, _clock(run.store)) else ""


def as_ours(run: Run) -> Run:
    """Returns the run to look at: one that rl-swarm made is read through its adapter and cannot be written to."""
    if isinstance(run.store, RlSwarmStore) or run.store.stat(keys.EXPERIMENT) or not made_by(run):
        return run
    return Run(run.experiment, RlSwarmStore(run.store, run.experiment))


def unknown_columns(run: Run) -> frozenset[str]:
    """Returns columns of MetricsRow that nobody recorded in this run: their values are defaults, and say nothing."""
    return NOT_RECORDED if made_by(run) == RL_SWARM else frozenset()


def refuse_foreign(run: Run) -> None:
    """See that nodes of this program may work here.

    Raises:
        ExperimentError: another program made the run, or it was imported from one.
    """
    if maker := made_by(run):
        raise ExperimentError(
            f"{run.store.describe()} was made by {maker}: it is read and never gone on with, for its rewards, files "
            "and clock mean other things; choose another --experiment for a new run"
        )


def _said(run: Run) -> str:
    try:
        return maker_of(read_experiment(run))
    except ProtocolError:
        return ""


def _clock(store: Store) -> bytes | None:
    try:
        return store.get(keys.STATE, SMALL_FILE).data
    except (FileNotFoundError, ProtocolError):
        return None
