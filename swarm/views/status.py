"""Where an experiment stands: the round clock and every node, from the folder alone."""

from __future__ import annotations

from collections import Counter

import msgspec

from swarm.config import JUDGE
from swarm.records.read import Tail, count_stage, nodes_with_logs, parse_line, read_peers, read_state_or_problem
from swarm.types import RoundKey
from swarm.views.distrust import Distrust, Opinion, distrusted, render_distrusted
from swarm.views.finished import keeps_own_clocks
from swarm.views.text import age, counts, printable, shorten, table
from swarm.wire.layout import Layout
from swarm.wire.messages import PeerFile


class NodeStatus(msgspec.Struct, kw_only=True):
    """One node."""

    node: str
    role: str
    status: str
    phase: str
    round: int
    model: str
    live: bool
    """It has not said goodbye, and its last heartbeat is younger than the liveness timeout. The heartbeat's time is
    from the node's clock and the age from ours, so two hosts must agree on the time; nodes themselves judge otherwise.
    """
    seen_ago: float | None
    """Seconds since the last heartbeat, None for a node that is known from its logs alone."""
    rounds: int
    """Metrics rows."""
    last_reward: float | None
    cumulative_reward: float | None
    refused_files: dict[str, int]
    """Peers' files and groups this node refused, by reason, over the whole run."""
    external_unverified: int
    """Peers' groups it trained on whose question could not be made anew: it runs with SWARM_ADMIT=unverified."""


class Status(msgspec.Struct, kw_only=True):
    """The experiment."""

    experiment: str
    path: str
    round: int | None
    """The open round, or the number of rounds done once finished; None before the clock starts."""
    stage: int | None
    max_rounds: int | None
    finished: bool
    own_clocks: bool
    """There is no coordinator: each node keeps its own clock."""
    updated_ago: float | None
    """Seconds since the clock last moved."""
    rollouts: int
    """Rollout files of the open stage."""
    rewards: int
    alone: list[str]
    """Workers that did their last round by themselves, as no coordinator was alive."""
    problem: str
    """Why the state cannot be read, empty if it can."""
    nodes: list[NodeStatus]
    distrusted: list[Distrust]
    """Peers that others refuse, the most refused first."""


class _Glance(msgspec.Struct):
    """The few columns of a metrics row that a status needs."""

    my_reward: float
    cumulative_reward: float = 0.0
    refused_files: dict[str, int] = {}
    refused_by_peer: dict[str, dict[str, int]] = {}
    false_claims: dict[str, int] = {}
    quarantined: list[str] = []
    external_unverified: int = 0
    clock: str = "coordinator"


class _Progress:
    """What a node's metrics add up to; reads on from where it was."""

    def __init__(self, layout: Layout, node: str) -> None:
        self._tail = Tail(layout.metrics_file(node))
        self.rounds = 0
        self.last: _Glance | None = None
        self.refused: Counter[str] = Counter()
        self.opinion = Opinion()
        self.unverified = 0

    def update(self) -> None:
        for line in self._tail.read():
            row = parse_line(line, _Glance)
            if row is not None:
                self.rounds += 1
                self.last = row
                self.refused.update(row.refused_files)
                self.opinion.observe(row.refused_by_peer, row.false_claims, row.quarantined)
                self.unverified += row.external_unverified

    @property
    def is_alone(self) -> bool:
        return self.last is not None and self.last.clock == "own"


class StatusReader:
    """Reads the status as often as asked; metrics files are read once and then only their new lines."""

    def __init__(self, layout: Layout, *, liveness_timeout: float) -> None:
        self._layout = layout
        self._timeout = liveness_timeout
        self._progress: dict[str, _Progress] = {}

    def read(self, now: float) -> Status:
        """The status at `now`, Unix seconds."""
        state, problem = read_state_or_problem(self._layout)
        open_stage = RoundKey(state.round, state.stage) if state else RoundKey(0)
        peers = {peer.peer_id: peer for peer in read_peers(self._layout)}
        nodes = [self._node(node, peers.get(node), now) for node in sorted({*peers, *nodes_with_logs(self._layout)})]
        return Status(
            experiment=self._layout.experiment,
            path=str(self._layout.path),
            round=state.round if state else None,
            stage=state.stage if state else None,
            max_rounds=state.max_rounds if state else None,
            finished=state.finished if state else False,
            own_clocks=keeps_own_clocks(self._layout),
            updated_ago=max(0.0, now - state.updated_at) if state else None,
            rollouts=len(count_stage(self._layout.rollouts_of(open_stage))[0]),
            rewards=len(count_stage(self._layout.rewards_of(open_stage))[0]),
            alone=sorted(node for node, progress in self._progress.items() if progress.is_alone),
            problem=problem,
            nodes=nodes,
            distrusted=distrusted({node: progress.opinion for node, progress in self._progress.items()}),
        )

    def _node(self, node: str, peer: PeerFile | None, now: float) -> NodeStatus:
        progress = self._progress.setdefault(node, _Progress(self._layout, node))
        progress.update()
        ago = max(0.0, now - peer.last_seen) if peer else None
        return NodeStatus(
            node=node,
            role=peer.node_role if peer else JUDGE if node == JUDGE else "?",
            status=peer.status if peer else "?",
            phase=peer.phase if peer else "",
            round=peer.round if peer else -1,
            model=peer.model if peer else "",
            live=peer is not None and peer.status != "stopped" and ago is not None and ago <= self._timeout,
            seen_ago=ago,
            rounds=progress.rounds,
            last_reward=progress.last.my_reward if progress.last else None,
            cumulative_reward=progress.last.cumulative_reward if progress.last else None,
            refused_files=dict(progress.refused),
            external_unverified=progress.unverified,
        )


def render(status: Status) -> str:
    """The status as text for a terminal."""
    head = f"{status.experiment} in {printable(status.path)}\n{_clock(status)}"
    if not status.nodes:
        return f"{head}\n\nno node has registered yet"
    names = ("node", "role", "live", "status", "phase", "round", "seen", "reward", "cumulative", "refused")
    nodes = table(names, [_cells(node) for node in status.nodes], left=(0, 1, 2, 3, 4, 9))
    parts = (head, nodes, _believers(status.nodes), render_distrusted(status.distrusted))
    return "\n\n".join(part for part in parts if part)


def _believers(nodes: list[NodeStatus]) -> str:
    names = [shorten(node.node, 24) for node in nodes if node.external_unverified]
    return f"SWARM_ADMIT=unverified: peers' own answers are believed by {', '.join(names)}" if names else ""


def _clock(status: Status) -> str:
    if status.problem:
        return f"the state cannot be read: {printable(status.problem)}"
    if status.own_clocks:
        return f"each node keeps its own clock; {_range_of_rounds(status.nodes)}"
    if status.round is None or status.updated_ago is None:
        return "the clock has not started: no coordinator has written a state yet"
    if status.alone and not status.finished:
        return (
            f"no coordinator since round {status.round} of {status.max_rounds}: {len(status.alone)} workers went on by "
            f"themselves; {_range_of_rounds(status.nodes)}"
        )
    if status.finished:
        return f"finished: {status.round} of {status.max_rounds} rounds, {age(status.updated_ago)} ago"
    return (
        f"round {status.round} of {status.max_rounds}, stage {status.stage}, open for {age(status.updated_ago)}; "
        f"{status.rollouts} rollout files, {status.rewards} rewards"
    )


def _range_of_rounds(nodes: list[NodeStatus]) -> str:
    """Of the workers that are at it, or else of all of them."""
    workers = [node for node in nodes if node.role == "worker" and node.round >= 0]
    rounds = [node.round for node in workers if node.live] or [node.round for node in workers]
    if not rounds:
        return "nobody has begun a round yet"
    there = f"in round {min(rounds)}" if len(set(rounds)) == 1 else f"in rounds {min(rounds)} to {max(rounds)}"
    return there if any(node.live for node in workers) else f"nobody is alive, the last ones were {there}"


def _cells(node: NodeStatus) -> list[str]:
    return [
        shorten(node.node, 24),
        shorten(node.role, 11),
        "live" if node.live else "-",
        shorten(node.status, 8),
        shorten(node.phase, 10) or "-",
        str(node.round) if node.round >= 0 else "-",
        age(node.seen_ago) if node.seen_ago is not None else "-",
        f"{node.last_reward:.3f}" if node.last_reward is not None else "-",
        f"{node.cumulative_reward:.2f}" if node.cumulative_reward is not None else "-",
        shorten(counts(node.refused_files), 24),
    ]
