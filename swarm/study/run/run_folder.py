"""How far a run is, from its experiment's folder: all that is known of a run after a crash."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean

import msgspec

from swarm.records.read import Tail, nodes_with_logs, parse_line, read_peers, read_state_or_problem
from swarm.store.folder.fetch import list_numbered
from swarm.wire.layout import Layout, round_of


class _Glance(msgspec.Struct):
    """What is needed of a metrics row."""

    round: int
    my_reward: float


@dataclass(frozen=True)
class RunProgress:
    """A run at one moment."""

    rounds_done: int = 0
    reward: float | None = None
    """Mean over the nodes of `my_reward`, of the last round that has rows."""
    cumulative_reward: float = 0.0
    """Sum over nodes and rounds of `my_reward`."""


class RunFollower:
    """Reads a run's progress as often as asked; metrics files are read once and then only their new lines."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._tails: dict[str, Tail] = {}
        self._rewards: dict[int, dict[str, float]] = defaultdict(dict)

    def read(self) -> RunProgress:
        """The progress by now. Of several rows of one node and round the last counts."""
        for node in nodes_with_logs(self._layout):
            tail = self._tails.setdefault(node, Tail(self._layout.metrics_file(node)))
            for line in tail.read():
                if row := parse_line(line, _Glance):
                    self._rewards[row.round][node] = row.my_reward
        state, _ = read_state_or_problem(self._layout)
        last = max(self._rewards, default=None)
        return RunProgress(
            rounds_done=state.round if state else 0,
            reward=fmean(self._rewards[last].values()) if last is not None else None,
            cumulative_reward=sum(sum(nodes.values()) for nodes in self._rewards.values()),
        )


def is_finished(layout: Layout, rounds: int) -> bool:
    """All rounds are done, as the coordinator's clock says."""
    state, _ = read_state_or_problem(layout)
    return state is not None and state.finished and state.round >= rounds


def can_go_on(layout: Layout) -> bool:
    """Whether every worker saved the last round that it did.

    A swarm that was stopped did. Of one that was killed some nodes would go on with older weights at the round where
    the clock stands, and the run would no longer be what its configuration says.
    """
    state, problem = read_state_or_problem(layout)
    if problem:
        return False
    clock = state.round if state else 0
    workers = [peer.peer_id for peer in read_peers(layout) if peer.node_role == "worker"]
    return all(_rounds_saved(layout, node) >= max(clock, _rounds_logged(layout, node)) for node in workers)


def _rounds_saved(layout: Layout, node: str) -> int:
    numbers = list_numbered(layout.checkpoints, round_of)
    return max((number for number in numbers if layout.checkpoint(number, node).is_dir()), default=0)


def _rounds_logged(layout: Layout, node: str) -> int:
    rows = (parse_line(line, _Glance) for line in Tail(layout.metrics_file(node)).read())
    return max((row.round + 1 for row in rows if row), default=0)
