"""The models of an exam: every node's newest checkpoint, and the model that it started from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from swarm.errors import CheckpointError, ModelError, ProtocolError
from swarm.policy.embedded import EMBEDDED
from swarm.records.files import read_form
from swarm.records.listing import saved_rounds
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.messages import NodeState


class Candidate(NamedTuple):
    """One node at one moment."""

    node_id: str
    model: str
    """As the node calls it."""
    rounds_done: int
    """0: before the training."""
    source: str
    """What is examined: an embedded name, a Hugging Face id, or where the checkpoint's model is; for messages."""
    checkpoint: str = ""
    """Prefix of the checkpoint in the run's store; empty before the training."""


def candidates(run: Run, models: Sequence[str]) -> list[Candidate]:
    """Before and after, node by node. Blocking.

    Args:
        models: what the experiment's nodes may have started from, as settings name models.

    Raises:
        CheckpointError: there is no checkpoint, or one cannot be read.
        ModelError: nobody says where the model is that a node started from.
    """
    newest = {node: keys.checkpoint(rounds[-1], node) for node, rounds in saved_rounds(run).items()}
    if not newest:
        where = run.store.describe(keys.CHECKPOINTS)
        raise CheckpointError(f"{where}: expected a checkpoint of some node, got none; nodes write one when they stop")
    found = []
    for node, prefix in sorted(newest.items()):
        state = _read_state(run, prefix)
        found.append(Candidate(node, state.model, 0, _start(state.model, models)))
        model = run.store.describe(f"{prefix}/model")
        found.append(Candidate(node, state.model, state.rounds_done, model, prefix))
    return found


@contextmanager
def opened(run: Run, candidate: Candidate) -> Iterator[str]:
    """What to load a candidate from, for the block. Raises as Store.open_bundle does."""
    if not candidate.checkpoint:
        yield candidate.source
        return
    with run.store.open_bundle(candidate.checkpoint) as folder:
        yield str(folder / "model")


def _read_state(run: Run, prefix: str) -> NodeState:
    try:
        state = read_form(run.store, f"{prefix}/node.json", NodeState)
    except ProtocolError as error:
        raise CheckpointError(f"{error}; move the checkpoint away to examine the one before") from None
    if state is None:
        where = run.store.describe(prefix)
        raise CheckpointError(f"{where}: expected a node.json, got none; move the checkpoint away")
    return state


def _start(name: str, models: Sequence[str]) -> str:
    """Nodes know their model by the last part of its name alone."""
    for model in (*models, *EMBEDDED):
        if Path(model).name == name:
            return model
    raise ModelError(f"a node started from a model called {name!r}: give its whole name or folder as MODEL_NAME")
