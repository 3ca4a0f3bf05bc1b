"""Tells who made a run: nodes of this program, or another one that leaves a folder of nearly the same names.

    experiment.json                          what its `made_by` says; nodes of this program where it says nothing
    else a name that no node of this program
    writes, or a clock of another form       what a plugin says that knows such runs (`swarm.makers`)
    else                                     nodes of this program, or nobody yet

Whoever looks opens a run by `as_ours`, and reads it then as any other. A node refuses to start in a run that is not its
own kind's (`refuse_foreign`).
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from functools import cache
from typing import Any, Protocol

from swarm import entry_points
from swarm.errors import ExperimentError, ProtocolError
from swarm.records.files import SMALL_FILE, known_experiment, maker_of
from swarm.records.growing import parse_line
from swarm.records.listing import entries
from swarm.store.base import PAGE, Store
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.messages import MetricsRow

RECORDED = frozenset(
    (
        *("timestamp", "round", "stage", "node_id", "experiment", "my_reward", "model", "cumulative_reward"),
        *("seconds_round", "adaptive_I", "adaptive_J", "adaptive_J_continuous", "clock", "schema_version"),
    )
)
"""Columns of MetricsRow that a run of another program gives."""
NOT_RECORDED = frozenset(MetricsRow.__struct_fields__) - RECORDED
ANOTHER = "another program"
"""Who made a run whose clock is none of ours, and of which no plugin knows who."""
_OURS = {"schema_version", "experiment_name", "updated_by"}
"""Every clock of this program has these; those of other programs lack one of them at least."""
_STATE_FOLDER, _JUDGE_FOLDER = keys.STATE.partition("/")[0], keys.JUDGE_ANSWERS.partition("/")[0]
_TOP = {
    *(keys.EXPERIMENT, keys.TASKS, _STATE_FOLDER, keys.PEERS, keys.ROLLOUTS, keys.COMPLETIONS, keys.WEIGHTS),
    *(keys.REWARDS, keys.WINNERS, _JUDGE_FOLDER, keys.CHECKPOINTS, keys.LOGS, keys.EXAM, keys.STUDY_RUN, keys.CLEANED),
    keys.DRAFTS,
}
"""Names that nodes and commands of this program write at the top of an experiment."""


class Maker(Protocol):
    """An entry point in `swarm.makers`, under the name of another program, is a module with these functions."""

    def made(self, top: Collection[str], clock: bytes | None) -> bool:
        """Returns whether that program made a run without experiment.json.

        Args:
            top: the names at the top of its folder.
            clock: its state/current_state.json; None: there is none that can be read.
        """

    def adapted(self, store: Store, experiment: str) -> AdaptedStore:
        """Returns the run as a store of our keys and forms, to read and nothing else; of a row's columns RECORDED."""


class AdaptedStore(Store, Protocol):
    """A store through which another program's run is read."""

    @property
    def made_by(self) -> str:
        """The name of that program."""


def made_by(run: Run) -> str:
    """Returns the program that made a run; "": nodes of this one, or nobody yet. Raises StoreError: the place fails."""
    if maker := _adapted_from(run.store):
        return maker
    if run.store.stat(keys.EXPERIMENT) is not None:
        return maker_of(known_experiment(run))
    top = [entry.name for _, entry in zip(range(PAGE), entries(run.store, ""), strict=False)]
    return _maker_of(top, _clock(run.store))


def as_ours(run: Run) -> Run:
    """Returns the run to look at: one that another program made as a plugin reads it, and nothing is written to it."""
    if _adapted_from(run.store) or run.store.stat(keys.EXPERIMENT) or (name := made_by(run)) not in makers():
        return run
    return Run(run.experiment, makers()[name].adapted(run.store, run.experiment))


def unknown_columns(run: Run) -> frozenset[str]:
    """Returns the columns of MetricsRow that nobody recorded in this run: their values are defaults and say nothing."""
    return NOT_RECORDED if made_by(run) else frozenset()


def refuse_foreign(run: Run) -> None:
    """See that nodes of this program may work here.

    Raises:
        ExperimentError: another program made the run.
    """
    if maker := made_by(run):
        raise ExperimentError(
            f"{run.store.describe()} was made by {maker}: it can only be read, for its rewards, files and clock "
            "mean other things. Choose another --experiment for a new run"
        )


def _adapted_from(store: Store) -> str:
    return str(getattr(store, "made_by", ""))


def _maker_of(top: Collection[str], clock: bytes | None) -> str:
    said = parse_line(clock, dict[str, Any]) if clock is not None else None
    foreign = said is not None and {"round", "stage"} <= said.keys() and not said.keys() >= _OURS
    if not foreign and _TOP.issuperset(top):
        return ""
    found = next((name for name, maker in makers().items() if maker.made(top, clock)), "")
    return found or (ANOTHER if foreign else "")


@cache
def makers() -> dict[str, Maker]:
    """Returns name -> who knows that program's runs; asked for where something looks like none of ours."""
    found = {}
    for name, entry in entry_points.found(entry_points.MAKERS).items():
        with suppress(entry_points.DanglingError):  # a run that cannot be told from ours is looked at as one
            found[name] = entry_points.load(entry)
    return found


def _clock(store: Store) -> bytes | None:
    try:
        return store.get(keys.STATE, SMALL_FILE).data
    except (FileNotFoundError, ProtocolError):
        return None
