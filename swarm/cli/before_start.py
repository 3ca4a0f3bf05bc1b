"""Before a node is started: what is known to fail is said once, and the models are on this machine.

settings of the nodes ─▶ refuse_unstartable ─▶ bring_models ─▶ processes
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from swarm.cli.say import warn
from swarm.config import Settings, variable
from swarm.config.file_names import why_reserved
from swarm.errors import CheckpointError, ConfigError, ModelError, ProtocolError, StoreError
from swarm.harmless import quoted
from swarm.planner.open_files import problem as open_files_problem
from swarm.planner.open_files import raise_limit
from swarm.planner.startable import problems
from swarm.policy.hub import fetch, is_hub_id
from swarm.policy.settings import LoraConfig, lora_config, trained_as
from swarm.records.files import read_form
from swarm.records.listing import saved_rounds
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.views.text import shorten
from swarm.wire import keys

MANIFEST, LARGEST_MANIFEST = "manifest.json", 16 << 20
"""File of a checkpoint; as swarm.policy.snapshot writes it, which imports torch."""
ANY_DEVICE: dict[str, Any] = {"device": None, "precision": "auto", "attention": "auto"}
"""Settings that ask nothing of a device."""


def refuse_unstartable(nodes: Iterable[Settings], *, here: bool = True) -> None:
    """Refuse nodes that could not write to their place or load their models.

    Args:
        here: they run on this machine; of another one's devices nothing is known.

    Raises:
        StoreError: nobody can write there.
        ConfigError: no node of this name or role can, from this machine; or it has too few open files.
        ModelError: a model cannot be had, or a device not be used; all of them, a line each.
    """
    known = list(nodes)
    if here:
        raise_limit()
        if few := open_files_problem():
            raise ConfigError(few)
    for name in {node.experiment for node in known}:
        if why := why_reserved(name):
            raise ConfigError(f"{variable('experiment')}: {why}")
    for folder in {node.place for node in known}:
        refuse_place(folder)
    for node in known:
        if node.node_id is not None:
            open_place(node.place).refuse_node(node.node_id, node.role)
    of_workers = [node if here else replace(node, **ANY_DEVICE) for node in known if node.loads_model]
    workers = {_loaded(node): node for node in of_workers}
    if found := dict.fromkeys(problem for node in workers.values() for problem in problems(node)):
        raise ModelError("\n".join(found))


def refuse_place(folder: str) -> None:
    """See that nodes could write in a shared place. Raises StoreError."""
    if problem := open_place(folder).problem():
        raise StoreError(f"--path {folder} cannot be used: {problem}; name a place that is writable")


class _Saved(msgspec.Struct):
    """Reads what matters here of a checkpoint's manifest.json."""

    model: str
    adapter: LoraConfig | None = None


def refuse_other_models(run: Run, nodes: Iterable[Settings]) -> None:
    """Refuse workers whose newest checkpoint is of another model, or of another part of it; one that cannot be read is
    left to them.

    Raises:
        CheckpointError: all of them, a line each.
    """
    saved = saved_rounds(run)
    workers = [node for node in nodes if node.trains and node.node_id in saved]
    if found := [problem for node in workers if (problem := _other_model(run, node, max(saved[str(node.node_id)])))]:
        raise CheckpointError("\n".join(found), other_model=True)


def _other_model(run: Run, node: Settings, rounds_done: int) -> str:
    checkpoint, asked = keys.checkpoint(rounds_done, str(node.node_id)), Path(node.model[0]).name
    where = f"{node.node_id} cannot go on in {run.store.describe()}"
    with suppress(ProtocolError):
        found = read_form(run.store, f"{checkpoint}/{MANIFEST}", _Saved, LARGEST_MANIFEST)
        if found is not None and found.model != asked:
            return (
                f"{where}: expected the model {shorten(found.model, 64)} of its checkpoint after {rounds_done} rounds, "
                f"got {asked}. Set MODEL_NAME to that one (--model), or choose another --experiment"
            )
        if found is not None and (saved := trained_as(found.adapter)) != (now := trained_as(lora_config(node))):
            return (
                f"{where}: expected {quoted(saved)}, as its checkpoint after {rounds_done} rounds has it, got {now}. "
                "Set these so, or choose another --experiment"
            )
    return ""


def _loaded(node: Settings) -> tuple[object, ...]:
    """Returns the settings on which it depends whether a node's model can be loaded."""
    return (node.model, node.device, node.precision, node.attention, node.hub_token)


def bring_models(nodes: Iterable[Settings]) -> None:
    """Fetch the models of the hub that this machine has not, visibly. Raises ModelError: one cannot be had."""
    tokens = {name: node.hub_token for node in nodes if node.loads_model for name in node.model}
    for name, token in tokens.items():
        if is_hub_id(name):
            fetch(name, warn, token)


def make_ready(nodes: Iterable[Settings], *, here: bool = True) -> None:
    """Refuses nodes that cannot start, and brings their models. Raises what both raise."""
    known = list(nodes)
    refuse_unstartable(known, here=here)
    bring_models(known)
