"""Where a coordinator takes the round clock up again: what the state file says, or what rounds left behind."""

from __future__ import annotations

from swarm.errors import ProtocolError
from swarm.folder.fetch import list_numbered
from swarm.folder.records import read_state
from swarm.protocol.layout import Layout, round_of, stage_of
from swarm.protocol.messages import StateFile
from swarm.types import RoundKey


def clock_from_traces(layout: Layout) -> RoundKey:
    """Where the clock must have been, from the rounds that nodes left behind: for a lost or torn state file.

    Returns:
        The highest round with rewards or rollouts, and its highest stage; round 0 only if there is none.
    """
    found = [RoundKey(0)]
    for folder in (layout.rewards, layout.rollouts):
        rounds = [number for number in list_numbered(folder, round_of) if (folder / f"round_{number}").is_dir()]
        for number in rounds[-1:]:
            stages = list_numbered(folder / f"round_{number}", stage_of)
            found.append(RoundKey(number, stages[-1] if stages else 0))
    return max(found)


def resume_point(layout: Layout) -> tuple[RoundKey, StateFile | None, str | None]:
    """Where a starting coordinator goes on.

    Returns:
        The round and stage, the state file if it could be read, and what was wrong with it if it could not.
    """
    try:
        state = read_state(layout)
    except ProtocolError as error:
        return clock_from_traces(layout), None, str(error)
    if state is None:
        return clock_from_traces(layout), None, None
    return RoundKey(state.round, state.stage), state, None
