"""Tells where an experiment stands: the round clock and every node, from the folder alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from statistics import median

import msgspec

from swarm.config import JUDGE
from swarm.harmless import printable
from swarm.records.finished import BY_WORKERS, IN_WORDS, NO_WORKERS
from swarm.records.hints import Hint
from swarm.records.liveness import ACTIVE, GENERATOR, PERSON, Machine, is_alive
from swarm.records.pace import Spread, seconds_per_round, spread, tokens_per_second
from swarm.records.progress import OWN, NodeProgress
from swarm.records.reader import RunReader, RunSnapshot
from swarm.records.table import Odd, measured
from swarm.store.replication import Replication
from swarm.store.run import Run
from swarm.views.distrust import Distrust, distrusted, render_distrusted
from swarm.views.node_state import Missing, in_words, seen, shortage, up_to_date
from swarm.views.replication import render_replication
from swarm.views.requests import Requests, render_requests, requests_of
from swarm.views.text import age, count, counts, first_lines, render_hints, render_maker, render_odd, shorten, table
from swarm.wire import keys
from swarm.wire.messages import PeerFile

NO_LOGS = NodeProgress()
"""Figures of a node without logs."""
SPREAD_OVER = 10
"""Rounds whose rewards are looked at together."""
OVERDUE = 2.0
"""Intervals after which an open round is held up by something."""
COLUMNS = ("node", "role", "round", "state", "seen", "reward", "cumulative", "external", "tokens", "refused")
LONGEST_STATE = 46
MOST_SHORTAGES = 8
LONGEST_SHORTAGE = 160


class NodeStatus(msgspec.Struct, kw_only=True):
    """One node."""

    node: str
    role: str
    status: str
    phase: str
    state: str
    """What it does, or whom it waits for, in words."""
    round: int
    """Counted from 0; -1: none yet."""
    model: str
    live: bool
    """It has not said goodbye, and its process, or of another machine its heartbeat, is there (is_alive)."""
    seen_ago: float | None
    """Seconds since the last heartbeat, None for a node that is known from its logs alone."""
    seen: str
    """The same in words; of one that is overdue, with how many of its heartbeats that is."""
    rounds: int
    """Rounds with a metrics row that counts."""
    last_reward: float | None
    cumulative_reward: float | None
    seconds_per_round: float | None
    """Median of its last rounds."""
    tokens_generated: int
    tokens_trained: int
    tokens_per_second: float | None
    """Sampled, over the time of its last rounds."""
    external_groups: int | None
    """Peers' groups that it trained on in its last round."""
    external_wanted: int | None
    shortage: str
    """Why these were fewer than wanted; empty if they were not."""
    refused_files: dict[str, int]
    """Peers' files and groups this node refused, by reason, over the whole run."""
    out_of_range: Odd
    """Counts of its rows, those that were left out, or in which a number was clamped."""


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
    rounds_done: int
    """Behind the run, by its clock, or by those who went further without it."""
    seconds_per_round: float | None
    """Median over the nodes of what they take; None while there is none alive with two rounds."""
    seconds_left: float | None
    """At this pace; None where that, or the number of rounds, is not known."""
    updated_ago: float | None
    """Seconds since the clock, or the last worker that finished by itself, last moved."""
    rollouts: int
    """Rollout files of the open stage."""
    rewards: int
    alone: list[str]
    """Workers that did their last round by themselves, as no coordinator was alive."""
    problem: str
    """Why the state cannot be read, empty if it can."""
    stands: str
    """Why the clock does not move on, in words; empty if nothing keeps it."""
    nodes: list[NodeStatus]
    distrusted: list[Distrust]
    """Peers that others refuse, the most refused first."""
    hints: list[Hint]
    """What makes nodes useless although nothing fails."""
    rewards_spread: Spread | None
    """Spread of the rewards of all workers in the last SPREAD_OVER rounds that are done."""
    requests: Requests | None = None
    """What its workers ask of a bucket; null for a run in a folder."""
    made_by: str = ""
    """Another program that made the run, such as `rl-swarm`; empty: this one."""
    replication: Replication | None = None
    """Where each member has a folder of its own: how far what they wrote has come to the others."""


class StatusReader:
    """Reads the status as often as asked; growing files are read once and then only their new lines."""

    def __init__(
        self,
        run: Run | RunReader,
        *,
        liveness_timeout: float,
        here: Machine | None = None,
        replication: Callable[[], Replication | None] = lambda: None,
    ) -> None:
        """`run`: or who reads it, for others too."""
        self._reader = run if isinstance(run, RunReader) else RunReader(run)
        self._timeout = liveness_timeout
        self._here = here
        self._replication = replication

    def read(self, wall: float) -> Status:
        """Returns the status at `wall`, Unix seconds."""
        now = self._reader.refresh()
        state, over = now.state, now.finished
        by_workers = over is not None and over.by == BY_WORKERS
        published, submitted = now.in_open_stage(keys.ROLLOUTS), now.in_open_stage(keys.REWARDS)
        live = {node for node, peer in now.peers.items() if is_alive(peer, wall, self._timeout, self._here)}
        at_work = {node for node in live if now.peers[node].node_role == "worker" and now.peers[node].status == ACTIVE}
        missing = Missing(at_work - published, at_work - submitted, clocked=state is not None and not state.finished)
        updated_ago = max(0.0, wall - _last_move(now, by_workers)) if state or by_workers else None
        nodes = [self._node(node, now, missing, wall, live=node in live) for node in now.nodes]
        pace, stands = _pace(nodes), _why_it_stands(now, live, updated_ago or 0.0)
        return Status(
            experiment=now.run.experiment,
            path=now.run.place,
            round=over.rounds if over else state.round if state else None,
            stage=state.stage if state else None,
            max_rounds=now.rounds_expected,
            finished=over is not None,
            finished_by=over.by if over else "",
            own_clocks=now.own_clocks,
            rounds_done=now.rounds_done,
            seconds_per_round=pace,
            seconds_left=None if stands else _seconds_left(now, pace, updated_ago),
            updated_ago=updated_ago,
            rollouts=len(published),
            rewards=len(submitted),
            alone=sorted(node for node, of in now.progress.items() if of.last and of.last.clock == OWN),
            problem=now.problem,
            stands=stands,
            nodes=nodes,
            distrusted=distrusted(now.progress),
            hints=now.hints(),
            rewards_spread=spread(_last_rewards(now)),
            requests=requests_of(now.progress.values(), now.run.store.facts().spent),
            made_by=now.made_by,
            replication=self._replication(),
        )

    def _node(self, node: str, now: RunSnapshot, missing: Missing, wall: float, *, live: bool) -> NodeStatus:
        progress = now.progress.get(node, NO_LOGS)
        last = progress.last
        peer = up_to_date(now.peers[node], last) if node in now.peers else None
        return NodeStatus(
            node=node,
            role=_role(peer, node),
            status=peer.status if peer else "?",
            phase=peer.phase if peer else "",
            state=in_words(peer, missing, wall, live=live) if peer else "",
            round=peer.round if peer else -1,
            model=peer.model if peer else "",
            live=live,
            seen_ago=max(0.0, wall - peer.last_seen) if peer else None,
            seen=seen(peer, wall) if peer else "",
            rounds=progress.rounds_with_rows,
            last_reward=last.my_reward if last and measured([last]) else None,
            cumulative_reward=last.cumulative_reward if last else None,
            seconds_per_round=seconds_per_round(progress.recent),
            tokens_generated=progress.sums["tokens_generated"],
            tokens_trained=progress.sums["tokens_trained"],
            tokens_per_second=tokens_per_second(progress.recent),
            external_groups=last.external_groups if last else None,
            external_wanted=last.external_wanted if last else None,
            shortage=shortage(last) if last else "",
            refused_files=dict(progress.counts["refused_files"]),
            out_of_range=progress.odd,
        )


def _why_it_stands(now: RunSnapshot, live: Set[str], open_for: float) -> str:
    """Returns why the clock stands, as the live coordinator says, else as far as the folder shows it."""
    state = now.state
    if state is None or state.finished or now.own_clocks:
        return ""
    there = [now.peers[node] for node in live]
    keepers = [peer for peer in there if peer.node_role == "coordinator" and peer.status == ACTIVE]
    if not keepers:
        return ""
    if said := next((IN_WORDS[peer.phase] for peer in keepers if peer.phase in IN_WORDS), ""):
        return said
    if not any(peer.node_role == "worker" for peer in there):
        return IN_WORDS[NO_WORKERS]
    if 0 < OVERDUE * state.round_interval < open_for:
        return "the open round has lasted longer than the interval: the coordinator's log says why (`swarm logs`)"
    return ""


def _role(peer: PeerFile | None, node: str) -> str:
    """Returns a node's role; for one that is waited for like a worker and trains nothing, what it does."""
    if peer is None:
        return JUDGE if node == JUDGE else "?"
    if peer.node_role != "worker" or peer.trains is not False:
        return peer.node_role
    return PERSON if peer.model == PERSON else GENERATOR


def _last_move(now: RunSnapshot, by_workers: bool) -> float:
    """Returns when the clock last moved, or the last worker ended a round."""
    rows = [progress.last.timestamp for progress in now.progress.values() if progress.last] if by_workers else []
    if not rows and now.state is None:  # of another program, without a reward on record
        rows = [now.peers[node].last_seen for node in now.workers if node in now.peers]
    return max([*rows, now.state.updated_at if now.state else 0.0])


def _pace(nodes: Iterable[NodeStatus]) -> float | None:
    of_live = [node.seconds_per_round for node in nodes if node.live and node.seconds_per_round is not None]
    return median(of_live) if of_live else None


def _seconds_left(now: RunSnapshot, pace: float | None, open_for: float | None) -> float | None:
    """Estimates the seconds that the run has left; the open round takes off one round's time at most."""
    if pace is None or not now.rounds_expected or now.finished:
        return None
    return max(0, now.rounds_expected - now.rounds_done) * pace - min(open_for or 0.0, pace)


def _last_rewards(now: RunSnapshot) -> list[float]:
    rounds = range(max(0, now.rounds_done - SPREAD_OVER), now.rounds_done)
    latest = [of_node.measured_rewards for of_node in now.progress.values()]
    return [rewards[r] for rewards in latest for r in rounds if r in rewards]


def render(status: Status) -> str:
    """Returns the status as text for a terminal."""
    maker = f"{render_maker(status.made_by)}\n" if status.made_by else ""
    head = f"{status.experiment} in {printable(status.path)}\n{maker}{clock_line(status)}{_how_far(status)}"
    if not status.nodes:
        return f"{head}\n\nno node has registered yet"
    nodes = table(COLUMNS, [_cells(node) for node in status.nodes], left=(0, 1, 3, 9))
    odd = "\n".join(render_odd({node.node: node.out_of_range for node in status.nodes if node.out_of_range}))
    parts = (
        head,
        nodes,
        _shortages(status.nodes),
        render_requests(status.requests),
        render_distrusted(status.distrusted),
        odd,
        render_hints(status.hints),
        render_replication(status.replication),
    )
    return "\n\n".join(part for part in parts if part)


def _shortages(nodes: list[NodeStatus]) -> str:
    """Returns in words which live nodes found too few groups in their last round."""
    short = [node for node in nodes if node.live and node.shortage]
    lines = [f"{shorten(node.node, 24)}: {shorten(node.shortage, LONGEST_SHORTAGE)}" for node in short]
    return "\n".join(first_lines(lines, MOST_SHORTAGES, "more nodes (--json shows all)"))


def _how_far(status: Status) -> str:
    """Returns lines below the clock's: how fast, how long still, how rewards spread."""
    lines = []
    if status.seconds_per_round is not None and not status.finished:
        left = f", about {age(status.seconds_left)} left" if status.seconds_left is not None else ""
        lines.append(f"{age(status.seconds_per_round)} per round{left}")
    if of := status.rewards_spread:
        lines.append(
            f"rewards of the last {SPREAD_OVER} rounds: {of.least:.3f} to {of.most:.3f}, half of them from "
            f"{of.lower_quartile:.3f} to {of.upper_quartile:.3f}, median {of.median:.3f}"
        )
    return "".join(f"\n{line}" for line in lines)


def clock_line(status: Status) -> str:
    """Says where the run is, in one line."""
    last = status.max_rounds or "?"
    if status.problem:
        return f"the state cannot be read: {printable(status.problem)}"
    if status.finished and status.updated_ago is not None:
        alone = "each node keeps its own clock; " if status.own_clocks else ""
        return f"{alone}finished: {status.round} of {last} rounds, {age(status.updated_ago)} ago"
    if status.own_clocks:
        return f"each node keeps its own clock; {_range_of_rounds(status.nodes)}"
    if status.round is None or status.updated_ago is None:
        if any(node.live and node.role == "coordinator" for node in status.nodes):
            return "the clock has not started: the coordinator waits until its workers are ready and no new one comes"
        return "the clock has not started: no coordinator has written a state yet"
    if status.alone:
        return (
            f"no coordinator since round {status.round}, {status.round}/{last} done: {len(status.alone)} workers went "
            f"on by themselves; {_range_of_rounds(status.nodes)}"
        )
    if status.stands:
        return (
            f"the clock stands in round {status.round} since {age(status.updated_ago)}; {status.round}/{last} done: "
            f"{status.stands}"
        )
    share = f" ({status.rounds_done / status.max_rounds:.0%})" if status.max_rounds else ""
    if not any(node.live for node in status.nodes):
        return (
            f"stopped in round {status.round}, {status.round}/{last} done{share}: nobody is alive, the clock last "
            f"moved {age(status.updated_ago)} ago; the same command that began it goes on"
        )
    return (
        f"round {status.round}, stage {status.stage}, open for {age(status.updated_ago)}; "
        f"{status.round}/{last} done{share}; {status.rollouts} rollout files, {status.rewards} rewards"
    )


def _range_of_rounds(nodes: list[NodeStatus]) -> str:
    """Returns in words the rounds of the live workers, or else of all workers."""
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
        str(node.round) if node.round >= 0 else "-",
        shorten(node.state, LONGEST_STATE) or "-",
        node.seen or "-",
        f"{node.last_reward:.3f}" if node.last_reward is not None else "-",
        f"{node.cumulative_reward:.2f}" if node.cumulative_reward is not None else "-",
        f"{node.external_groups}/{node.external_wanted}" if node.external_wanted else "-",
        _tokens(node),
        shorten(counts(node.refused_files), 24),
    ]


def _tokens(node: NodeStatus) -> str:
    if not node.tokens_generated:
        return "-"
    rate = f" ({count(node.tokens_per_second)}/s)" if node.live and node.tokens_per_second is not None else ""
    return f"{count(node.tokens_generated)}{rate}"
