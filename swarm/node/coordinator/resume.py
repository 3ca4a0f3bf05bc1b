"""Where a coordinator takes the round clock up again: what the state file says, or what workers left behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from swarm.errors import StoreError
from swarm.node.base.clock_file import read_clock
from swarm.node.base.submissions import has_submitted
from swarm.records.read import read_peers
from swarm.store.folder.fetch import list_nodes, list_numbered
from swarm.types import RoundKey
from swarm.wire.layout import Layout, round_of, stage_of
from swarm.wire.messages import StateFile


def resume_point(layout: Layout, max_rounds: int) -> tuple[RoundKey, StateFile | None, str]:
    """Where a starting coordinator goes on: never before a state that can be believed.

    Args:
        max_rounds: of the experiment as it is asked for now, which may be fewer than were done.

    Returns:
        The round and stage; the state file if it can be believed; and what is wrong with it if it cannot.
    """
    traces = clock_from_traces(layout)
    state, problem = read_clock(layout, most_rounds=max(max_rounds, traces.round + 1))
    if state is None:
        return min(traces, RoundKey(max_rounds)), None, problem
    return max(RoundKey(state.round, state.stage), min(traces, RoundKey(max_rounds))), state, ""


def clock_from_traces(layout: Layout) -> RoundKey:
    """Where the clock must have been, from the rewards of the rounds that workers did.

    No single node's word is taken for it, and no folder's: of the workers that ever submitted a reward, more than half
    have come so far. Where many have left meanwhile that is too early; those still there then show where they are (see
    `majority_front`).

    Returns:
        The furthest such round and stage; round 0 if there is none.
    """
    reached = sorted(_furthest(layout).values(), reverse=True)
    return reached[len(reached) // 2] if reached else RoundKey(0)


def _furthest(layout: Layout) -> dict[str, RoundKey]:
    """The last round and stage that each worker has a reward for: registered ones, or any where none is registered."""
    workers = {peer.peer_id for peer in read_peers(layout) if peer.node_role == "worker"}
    furthest: dict[str, RoundKey] = {}
    for key, submitted in _last_to_first(layout):
        for node in (submitted & workers if workers else submitted) - furthest.keys():
            if has_submitted(layout, key, node):
                furthest[node] = key
        if workers and furthest.keys() == workers:
            break
    return furthest


def _last_to_first(layout: Layout) -> Iterator[tuple[RoundKey, set[str]]]:
    """The nodes with a reward file, by round and stage; what cannot be listed, such as a link, leaves no trace."""
    for round_ in reversed(list_numbered(layout.rewards, round_of)):
        with suppress(StoreError):
            for stage in reversed(list_numbered(layout.rewards / f"round_{round_}", stage_of)):
                key = RoundKey(round_, stage)
                yield key, list_nodes(layout.rewards_of(key))
