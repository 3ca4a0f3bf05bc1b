"""Finds where a coordinator takes the round clock up again: what the state file says, or what workers left behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from swarm.errors import StoreError
from swarm.node.base.attendance import TRACES, Submissions, has_submitted, is_expected
from swarm.node.base.clock_belief import believed_state
from swarm.node.coordinator.coordinator_machine import MOST_EMPTY
from swarm.records.files import read_peers
from swarm.records.listing import entries, nodes_in, rounds_in
from swarm.store.run import Run
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.messages import StateFile


def resume_point(
    run: Run, max_rounds: int, expected: frozenset[str] = frozenset()
) -> tuple[RoundKey, StateFile | None, str]:
    """Returns where a starting coordinator goes on: never before a state that can be believed.

    Args:
        max_rounds: of the experiment as it is asked for now, which may be fewer than were done.
        expected: names or keys of the workers whose rounds alone say where the clock is; none: all workers' do.

    Returns:
        The round and stage; the state file if it can be believed; and what is wrong with it if it cannot.
    """
    traces = clock_from_traces(run, expected)
    state, problem = believed_state(run, most_rounds=max(max_rounds, traces.round + 1))
    untraced = min(MOST_EMPTY + 1, max_rounds)  # an end needs a trace, too
    if state and state.round >= untraced and not Submissions(run, expected=expected).lie_before(state.round):
        problem = f"expected a reward in one of the {TRACES} rounds before {state.round}, got none"
        state = None
    if state is None:
        return min(traces, RoundKey(max_rounds)), None, problem
    return max(RoundKey(state.round, state.stage), min(traces, RoundKey(max_rounds))), state, ""


def is_over(run: Run, max_rounds: int, expected: frozenset[str] = frozenset()) -> bool:
    """Tells whether a coordinator has ended the experiment, and rewards bear it out. Blocking. Raises StoreError."""
    state, _ = believed_state(run)
    if state is None or not state.finished or state.round < max_rounds:
        return False
    return Submissions(run, expected=expected).lie_before(state.round)


def clock_from_traces(run: Run, expected: frozenset[str] = frozenset()) -> RoundKey:
    """Returns where the clock must have been, from the rewards of the rounds that workers did.

    No single node's word is taken for it, and no folder's: of the workers that ever submitted a reward, more than half
    have come so far. Where many have left meanwhile that is too early; those still there then show where they are (see
    `majority_front`).

    Returns:
        The furthest such round and stage; round 0 if there is none.
    """
    reached = sorted(_furthest(run, expected).values(), reverse=True)
    return reached[len(reached) // 2] if reached else RoundKey(0)


def _furthest(run: Run, expected: frozenset[str]) -> dict[str, RoundKey]:
    """Returns the last round and stage that each worker has a reward for: registered ones, or any where none is
    registered.

    Of those alone that have rollouts beside one of their rewards: a reward without costs a stranger nothing.
    """
    registered = {peer.peer_id for peer in read_peers(run) if peer.node_role == "worker"}
    workers = {node for node in registered if is_expected(run, node, expected)}
    furthest: dict[str, RoundKey] = {}
    published: set[str] = set()
    for key, submitted in _last_to_first(run):
        left = {node for node in submitted - published if is_expected(run, node, expected)}
        left &= workers or left
        done = {node for node in left if has_submitted(run, key, node)}
        furthest = dict.fromkeys(done, key) | furthest
        published |= _with_rollouts(run, key, done)
        if workers and published == workers:
            break
    return {node: key for node, key in furthest.items() if node in published}


def _with_rollouts(run: Run, key: RoundKey, nodes: set[str]) -> set[str]:
    """Returns those of some nodes that have rollouts for a round; all where something stands in the place of the
    round's."""
    with suppress(StoreError):
        return nodes & nodes_in(run.store, keys.rollouts(key))
    return nodes


def _last_to_first(run: Run) -> Iterator[tuple[RoundKey, set[str]]]:
    """Yields the nodes with a reward file, by round and stage; what cannot be listed, as a link, leaves no trace."""
    for round_ in reversed(rounds_in(run.store, keys.REWARDS)):
        with suppress(StoreError):
            for stage in reversed(_stages(run, round_)):
                key = RoundKey(round_, stage)
                yield key, nodes_in(run.store, keys.rewards(key))


def _stages(run: Run, round_: int) -> list[int]:
    names = [entry.name for entry in entries(run.store, f"{keys.REWARDS}/round_{round_}")]
    return sorted(stage for name in names if (stage := keys.stage_of(name)) is not None)
