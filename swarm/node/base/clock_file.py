"""Reads the state file and rejects one that no registered coordinator of this experiment can have written."""

from __future__ import annotations

from swarm.errors import ProtocolError
from swarm.records.files import read_peer, read_state
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.messages import StateFile


def believed_state(run: Run, most_rounds: int | None = None) -> tuple[StateFile | None, str]:
    """What a coordinator of this experiment can have written. Blocking.

    Args:
        most_rounds: where the clock can be at most; None: where the file itself says that the experiment ends.

    Returns:
        The state, or None and what is wrong with the file; None and nothing while there is no file.

    Raises:
        StoreError: nobody can tell.
    """
    try:
        state = read_state(run)
    except ProtocolError as error:
        return None, str(error)
    if state is None:
        return None, ""
    doubt = _doubt(run, state, most_rounds)
    return (None, f"{run.store.describe(keys.STATE)}: {doubt}") if doubt else (state, "")


def _doubt(run: Run, state: StateFile, most_rounds: int | None) -> str:
    writer = read_peer(run, state.updated_by) if keys.is_node_id(state.updated_by) else None
    if writer is None or writer.node_role != "coordinator":
        return f"expected to be written by a registered coordinator, got updated_by = {state.updated_by[:80]!r}"
    most = most_rounds if most_rounds is not None else state.max_rounds or state.round  # 0: its writer did not say
    return f"expected round at most {most}, got {state.round}" if state.round > most else ""
