"""The models of an exam: every node's newest checkpoint, and the model that it started from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from swarm.errors import CheckpointError, ModelError, ProtocolError
from swarm.harmless import quoted
from swarm.policy.hub import own_model
from swarm.records.files import read_form
from swarm.records.listing import saved_rounds
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.messages import NodeState


class Candidate(NamedTuple):
    """One node at one moment."""

    node_id: str
    model: str
    """Name as the node calls it."""
    rounds_done: int
    """0: before the training."""
    start: str
    """The model that it started from, one of the user's: an embedded name, a Hugging Face id or a folder."""
    checkpoint: str = ""
    """Prefix of the checkpoint in the run's store; empty before the training."""
    where: str = ""
    """Where the checkpoint's model is, for messages."""

    @property
    def source(self) -> str:
        """Returns the model that is examined, for messages."""
        return self.where or self.start


def candidates(run: Run, models: Sequence[str], leave_out: Callable[[str], None] = lambda why: None) -> list[Candidate]:
    """Returns the models before and after, node by node, each at the newest checkpoint that can be read. Blocking.

    Anybody can make the folder of a checkpoint, so what cannot be examined costs no other node its exam.

    Args:
        models: what the experiment's nodes may have started from, as settings name models.
        leave_out: told of each node that cannot be examined, and why.

    Raises:
        CheckpointError: there is no checkpoint, or none can be read.
        ModelError: nobody says where the model is that a node started from, of any.
    """
    saved = saved_rounds(run)
    if not saved:
        where = run.store.describe(keys.CHECKPOINTS)
        raise CheckpointError(f"{where}: expected a checkpoint of some node, got none; nodes write one when they stop")
    found, errors = list[Candidate](), dict[str, CheckpointError | ModelError]()
    for node, rounds in sorted(saved.items()):
        try:
            found += _of_node(run, node, rounds, models)
        except (CheckpointError, ModelError) as error:
            errors[node] = error
    if not found:
        raise next(iter(errors.values()))
    for node, why in errors.items():
        leave_out(f"{node}: {why}")
    return found


def _of_node(run: Run, node: str, rounds: Sequence[int], models: Sequence[str]) -> list[Candidate]:
    state = _newest(run, node, rounds)
    prefix = keys.checkpoint(state.rounds_done, node)
    start, where = own_model(state.model, models), run.store.describe(f"{prefix}/model")
    return [
        Candidate(node, state.model, 0, start),
        Candidate(node, state.model, state.rounds_done, start, prefix, where),
    ]


def _newest(run: Run, node: str, rounds: Sequence[int]) -> NodeState:
    """Reads the newest checkpoint that can be read. Raises CheckpointError: none can, and why the newest cannot."""
    wrong: CheckpointError | None = None
    for rounds_done in reversed(rounds):
        try:
            return _read_state(run, node, rounds_done)
        except CheckpointError as error:
            wrong = wrong or error
    raise wrong or CheckpointError(f"{node} has no checkpoint")


@contextmanager
def opened(run: Run, candidate: Candidate) -> Iterator[Path | None]:
    """The folder of what training made of a candidate's model, for the block; None: nothing yet.

    Raises CheckpointError: it is gone by now; else as Store.open_bundle does.
    """
    if not candidate.checkpoint:
        yield None
        return
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(run.store.open_bundle(candidate.checkpoint))
        except FileNotFoundError:
            raise CheckpointError("it is gone: its node has newer ones by now, so try once more") from None
        yield folder / "model"


def _read_state(run: Run, node: str, rounds_done: int) -> NodeState:
    prefix = keys.checkpoint(rounds_done, node)
    where = run.store.describe(prefix)
    try:
        state = read_form(run.store, f"{prefix}/node.json", NodeState)
    except ProtocolError as error:
        raise CheckpointError(f"{error}; move the checkpoint away to examine the one before") from None
    if state is None:
        raise CheckpointError(f"{where}: expected a node.json, got none; move the checkpoint away")
    if (state.node_id, state.rounds_done) != (node, rounds_done):
        raise CheckpointError(
            f"{where}: expected that of {node} after {rounds_done} rounds, got that of {quoted(state.node_id)} after "
            f"{state.rounds_done}; move it away"
        )
    return state
