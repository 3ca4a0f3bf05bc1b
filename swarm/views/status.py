"""Where an experiment stands: the round clock and every node, from the folder alone."""

from __future__ import annotations

import msgspec

from swarm.config import JUDGE
from swarm.harmless import printable
from swarm.records.finished import BY_WORKERS
from swarm.records.hints import Hint
from swarm.records.liveness import Machine, is_alive
from swarm.records.progress import NodeProgress
from swarm.records.reader import RunReader, Snapshot
from swarm.records.rows import Odd
from swarm.store.run import Run
from swarm.views.distrust import Distrust, distrusted, render_distrusted
from swarm.views.hints import render_hints
from swarm.views.summary import render_maker, render_odd
from swarm.views.text import age, counts, shorten, table
from swarm.wire import keys

NOTHING = NodeProgress()
"""Of a node without logs."""


class NodeStatus(msgspec.Struct, kw_only=True):
    """One node."""

    node: str
    role: str
    status: str
    phase: str
    round: int
    model: str
    live: bool
    """It has not said goodbye, and its process, or of another machine its heartbeat, is there (is_alive)."""
    seen_ago: float | None
    """Seconds since the last heartbeat, None for a node that is known from its logs alone."""
    rounds: int
    """Rounds with a metrics row that counts."""
    last_reward: float | None
    cumulative_reward: float | None
    refused_files: dict[str, int]
    """Peers' files and groups this node refused, by reason, over the whole run."""
    external_unverified: int
    """Peers' groups it trained on whose question could not be made anew: it runs with SWARM_ADMIT=unverified."""
    out_of_range: Odd
    """Of its rows, those that were left out, or in which a number was clamped."""


class Status(msgspec.Struct, kw_only=True):
    """The experiment."""

    experiment: str
    path: str
    round: int | None
    """The open round, or the number of rounds done once finished; None before the clock starts, and on clocks of their
    own until all have finished."""
    stage: int | None
    max_rounds: int | None
    finished: bool
    finished_by: str
    """`coordinator`, or `workers` that went through their rounds by themselves; empty if not finished."""
    own_clocks: bool
    """There is no coordinator: each node keeps its own clock."""
    updated_ago: float | None
    """Seconds since the clock, or the last worker that finished by itself, last moved."""
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
    hints: list[Hint]
    """What makes nodes useless although nothing fails."""
    made_by: str = ""
    """Another program that made the run, such as `rl-swarm`; empty: this one."""


class StatusReader:
    """Reads the status as often as asked; growing files are read once and then only their new lines."""

    def __init__(self, run: Run, *, liveness_timeout: float, here: Machine | None = None) -> None:
        self._reader = RunReader(run)
        self._timeout = liveness_timeout
        self._here = here

    def read(self, wall: float) -> Status:
        """The status at `wall`, Unix seconds."""
        now = self._reader.refresh()
        state, over = now.state, now.finished
        by_workers = over is not None and over.by == BY_WORKERS
        return Status(
            experiment=now.run.experiment,
            path=now.run.place,
            round=over.rounds if over else state.round if state else None,
            stage=state.stage if state else None,
            max_rounds=now.rounds_expected,
            finished=over is not None,
            finished_by=over.by if over else "",
            own_clocks=now.own_clocks,
            updated_ago=max(0.0, wall - _last_move(now, by_workers)) if state or by_workers else None,
            rollouts=now.in_open_stage(keys.ROLLOUTS),
            rewards=now.in_open_stage(keys.REWARDS),
            alone=sorted(node for node, progress in now.progress.items() if progress.is_alone),
            problem=now.problem,
            nodes=[self._node(node, now, wall) for node in now.nodes],
            distrusted=distrusted(now.progress),
            hints=now.hints(),
            made_by=now.made_by,
        )

    def _node(self, node: str, now: Snapshot, wall: float) -> NodeStatus:
        peer, progress = now.peers.get(node), now.progress.get(node, NOTHING)
        return NodeStatus(
            node=node,
            role=peer.node_role if peer else JUDGE if node == JUDGE else "?",
            status=peer.status if peer else "?",
            phase=peer.phase if peer else "",
            round=peer.round if peer else -1,
            model=peer.model if peer else "",
            live=peer is not None and is_alive(peer, wall, self._timeout, self._here),
            seen_ago=max(0.0, wall - peer.last_seen) if peer else None,
            rounds=len(progress.rewards),
            last_reward=progress.last.my_reward if progress.last else None,
            cumulative_reward=progress.last.cumulative_reward if progress.last else None,
            refused_files=dict(progress.refused),
            external_unverified=progress.unverified,
            out_of_range=progress.odd,
        )


def _last_move(now: Snapshot, by_workers: bool) -> float:
    """When the clock last moved, or the last worker ended a round."""
    rows = [progress.last.timestamp for progress in now.progress.values() if progress.last] if by_workers else []
    if not rows and now.state is None:  # of another program, without a reward on record
        rows = [now.peers[node].last_seen for node in now.workers if node in now.peers]
    return max([*rows, now.state.updated_at if now.state else 0.0])


def render(status: Status) -> str:
    """The status as text for a terminal."""
    maker = f"{render_maker(status.made_by)}\n" if status.made_by else ""
    head = f"{status.experiment} in {printable(status.path)}\n{maker}{_clock(status)}"
    if not status.nodes:
        return f"{head}\n\nno node has registered yet"
    names = ("node", "role", "live", "status", "phase", "round", "seen", "reward", "cumulative", "refused")
    nodes = table(names, [_cells(node) for node in status.nodes], left=(0, 1, 2, 3, 4, 9))
    odd = "\n".join(render_odd({node.node: node.out_of_range for node in status.nodes if node.out_of_range}))
    parts = (
        head,
        nodes,
        _believers(status.nodes),
        render_distrusted(status.distrusted),
        odd,
        render_hints(status.hints),
    )
    return "\n\n".join(part for part in parts if part)


def _believers(nodes: list[NodeStatus]) -> str:
    names = [shorten(node.node, 24) for node in nodes if node.external_unverified]
    return f"SWARM_ADMIT=unverified: peers' own answers are believed by {', '.join(names)}" if names else ""


def _clock(status: Status) -> str:
    last = status.max_rounds or "?"
    if status.problem:
        return f"the state cannot be read: {printable(status.problem)}"
    if status.finished and status.updated_ago is not None:
        alone = "each node keeps its own clock; " if status.own_clocks else ""
        return f"{alone}finished: {status.round} of {last} rounds, {age(status.updated_ago)} ago"
    if status.own_clocks:
        return f"each node keeps its own clock; {_range_of_rounds(status.nodes)}"
    if status.round is None or status.updated_ago is None:
        return "the clock has not started: no coordinator has written a state yet"
    if status.alone:
        return (
            f"no coordinator since round {status.round} of {last}: {len(status.alone)} workers went on by "
            f"themselves; {_range_of_rounds(status.nodes)}"
        )
    return (
        f"round {status.round} of {last}, stage {status.stage}, open for {age(status.updated_ago)}; "
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
