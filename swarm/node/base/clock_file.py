"""The file of the round clock, as far as it can be believed: in a folder without logins anybody may have written it."""

from __future__ import annotations

from swarm.records.read import read_peer, read_state_or_problem
from swarm.wire.layout import Layout, is_node_id
from swarm.wire.messages import StateFile


def read_clock(layout: Layout, most_rounds: int | None = None) -> tuple[StateFile | None, str]:
    """What a coordinator of this experiment can have written.

    Args:
        most_rounds: where the clock can be at most; None: where the file itself says that the experiment ends.

    Returns:
        The state, or None and what is wrong with the file; None and nothing while there is no file.
    """
    state, problem = read_state_or_problem(layout)
    if state is None:
        return None, problem
    doubt = _doubt(layout, state, most_rounds)
    return (None, f"{layout.state_file}: {doubt}") if doubt else (state, "")


def _doubt(layout: Layout, state: StateFile, most_rounds: int | None) -> str:
    writer = read_peer(layout, state.updated_by) if is_node_id(state.updated_by) else None
    if writer is None or writer.node_role != "coordinator":
        return f"expected to be written by a registered coordinator, got updated_by = {state.updated_by[:80]!r}"
    most = most_rounds if most_rounds is not None else state.max_rounds or state.round  # 0: its writer did not say
    return f"expected round at most {most}, got {state.round}" if state.round > most else ""
