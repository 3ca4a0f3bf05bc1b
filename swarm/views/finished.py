"""Whether an experiment is over: by its clock, or because all workers went through their rounds by themselves."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from swarm.errors import ProtocolError
from swarm.records.read import Tail, parse_line, read_file, read_peers, read_state_or_problem
from swarm.wire.layout import Layout
from swarm.wire.messages import ExperimentFile


class _Life(msgspec.Struct):
    """An event at the beginning or at the end of a node's life."""

    event: str
    reason: object = None
    rounds_done: object = None


def keeps_own_clocks(layout: Layout) -> bool:
    """Whether the experiment is one without a coordinator."""
    try:
        experiment = read_file(layout.experiment_file, ExperimentFile)
    except ProtocolError:
        return False
    return experiment is not None and experiment.identity.get("clock") == "own"


def rounds_when_finished(layout: Layout) -> int | None:
    """The number of rounds of an experiment that is over, None of one that goes on or was stopped."""
    state, _ = read_state_or_problem(layout)
    if state is not None and state.finished:
        return state.round
    workers = {peer.peer_id for peer in read_peers(layout) if peer.node_role == "worker"}
    return common_end(finished_after(layout, node) for node in workers)


def finished_after(layout: Layout, node: str) -> int | None:
    """The rounds after which a node ended because there were no more; None if it did not, or was started again."""
    rounds: int | None = None
    for line in Tail(layout.events_file(node)).read():
        if b'"node.starting"' in line:
            rounds = None
        elif b'"node.finished"' in line and (life := parse_line(line, _Life)) and life.event == "node.finished":
            done = life.rounds_done if life.reason == "finished" else None
            rounds = done if isinstance(done, int) else None
    return rounds


def common_end(ends: Iterable[int | None]) -> int | None:
    """The number of rounds after which all nodes ended, None unless all did, and after the same number."""
    found = set(ends)
    return found.pop() if len(found) == 1 else None
