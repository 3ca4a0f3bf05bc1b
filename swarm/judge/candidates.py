"""Who is to be examined? Every node's newest checkpoint, and the model that it started from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from swarm.errors import CheckpointError, ModelError, ProtocolError
from swarm.policy.embedded import EMBEDDED
from swarm.records.read import read_file
from swarm.store.folder.fetch import list_names, list_numbered
from swarm.wire.layout import Layout, is_node_id, round_of
from swarm.wire.messages import NodeState


class Candidate(NamedTuple):
    """One node at one moment."""

    node_id: str
    model: str
    """As the node calls it."""
    rounds_done: int
    """0: before the training."""
    source: str
    """What to load: an embedded name, a Hugging Face id, or a folder."""


def candidates(layout: Layout, models: Sequence[str]) -> list[Candidate]:
    """Before and after, node by node. Blocking.

    Args:
        models: what the experiment's nodes may have started from, as settings name models.

    Raises:
        CheckpointError: there is no checkpoint, or one cannot be read.
        ModelError: nobody says where the model is that a node started from.
    """
    newest = _newest_checkpoints(layout)
    if not newest:
        raise CheckpointError(
            f"{layout.checkpoints}: expected a checkpoint of some node, got none; nodes write one when they stop"
        )
    found = []
    for node, folder in sorted(newest.items()):
        state = _read_state(folder)
        found.append(Candidate(node, state.model, 0, _start(state.model, models)))
        found.append(Candidate(node, state.model, state.rounds_done, str(folder / "model")))
    return found


def _newest_checkpoints(layout: Layout) -> dict[str, Path]:
    return {
        node: layout.checkpoint(rounds_done, node)
        for rounds_done in list_numbered(layout.checkpoints, round_of)
        for node in list_names(layout.checkpoints / f"round_{rounds_done}")
        if is_node_id(node)
    }


def _read_state(folder: Path) -> NodeState:
    try:
        state = read_file(folder / "node.json", NodeState)
    except ProtocolError as error:
        raise CheckpointError(f"{error}; move the checkpoint away to examine the one before") from None
    if state is None:
        raise CheckpointError(f"{folder}: expected a node.json, got none; move the checkpoint away")
    return state


def _start(name: str, models: Sequence[str]) -> str:
    """Nodes know their model by the last part of its name alone."""
    for model in (*models, *EMBEDDED):
        if Path(model).name == name:
            return model
    raise ModelError(f"a node started from a model called {name!r}: give its whole name or folder as MODEL_NAME")
