"""Reads the state file and rejects one that no registered coordinator of this experiment can have written."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from swarm.errors import ProtocolError
from swarm.records.files import read_peer, read_state
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.messages import PeerFile, StateFile


def believed_state(run: Run, most_rounds: int | None = None) -> tuple[StateFile | None, str]:
    """Returns the state that `written_state` finds, without its writer's registration, and what is wrong with it."""
    written, problem = written_state(run, most_rounds)
    return (written[0] if written else None), problem


def written_state(
    run: Run,
    most_rounds: int | None = None,
    known: tuple[StateFile, PeerFile] | None = None,
    read_writer: Callable[[str], PeerFile | None] | None = None,
) -> tuple[tuple[StateFile, PeerFile] | None, str]:
    """Reads the state file, and the registration of the coordinator that can have written it. Blocking.

    Args:
        most_rounds: where the clock can be at most; None: where the file itself says that the experiment ends.
        known: what this gave a moment ago: while the file stays as it is, the registration is not read again.
        read_writer: reads a node's registration; None: `read_peer` does.

    Returns:
        Both, or None and what is wrong with the file; None and nothing while there is no file.

    Raises:
        StoreError: nobody can tell.
    """
    try:
        state = read_state(run)
    except ProtocolError as error:
        return None, str(error)
    if state is None:
        return None, ""
    if known and state == known[0]:
        return known, ""
    read_writer = read_writer or partial(read_peer, run)
    writer = read_writer(state.updated_by) if keys.is_node_id(state.updated_by) else None
    if writer is None or writer.node_role != "coordinator":
        doubt = f"expected to be written by a registered coordinator, got updated_by = {state.updated_by[:80]!r}"
    elif not (doubt := _beyond_the_end(state, most_rounds)):
        return (state, writer), ""
    return None, f"{run.store.describe(keys.STATE)}: {doubt}"


def _beyond_the_end(state: StateFile, most_rounds: int | None) -> str:
    most = most_rounds if most_rounds is not None else state.max_rounds or state.round  # 0: its writer did not say
    return f"expected round at most {most}, got {state.round}" if state.round > most else ""
