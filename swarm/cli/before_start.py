"""Before a node is started: what is known to fail is said once, and the models are on this machine.

settings of the nodes ─▶ refuse_unstartable ─▶ bring_models ─▶ processes
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from swarm.cli.say import warn
from swarm.config import Settings
from swarm.errors import ModelError, StoreError
from swarm.planner.startable import problems
from swarm.policy.hub import fetch, is_hub_id
from swarm.store.place import open_place


def refuse_unstartable(nodes: Iterable[Settings]) -> None:
    """Refuse nodes that could not write to their place or load their models.

    Raises:
        StoreError: nobody can write there.
        ModelError: a model cannot be had, or a device not be used; all of them, a line each.
    """
    known = list(nodes)
    for folder in {node.shared_folder for node in known}:
        refuse_place(folder)
    workers = {_loaded(node): node for node in known if node.role == "worker"}
    if found := dict.fromkeys(problem for node in workers.values() for problem in problems(node)):
        raise ModelError("\n".join(found))


def refuse_place(folder: Path) -> None:
    """See that nodes could write in a shared folder. Raises StoreError."""
    if problem := open_place(folder).problem():
        raise StoreError(f"--path {folder} cannot be used: {problem}; name a folder that is writable")


def _loaded(node: Settings) -> tuple[object, ...]:
    """On what it depends whether its model can be loaded."""
    return (node.model, node.device, node.precision, node.attention, node.hub_token)


def bring_models(nodes: Iterable[Settings]) -> None:
    """Fetch the models of the hub that this machine has not, visibly. Raises ModelError: one cannot be had."""
    tokens = {name: node.hub_token for node in nodes if node.role == "worker" for name in node.model}
    for name, token in tokens.items():
        if is_hub_id(name):
            fetch(name, warn, token)


def make_ready(nodes: Iterable[Settings]) -> None:
    """Both. Raises what they raise."""
    known = list(nodes)
    refuse_unstartable(known)
    bring_models(known)
