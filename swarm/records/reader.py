"""Follows a run: each `refresh` gives a RunSnapshot of it, and costs what has come since the one before.

    reader = RunReader(place.open("name"))
    now = reader.refresh()
    now.finished, now.rounds_done, now.progress["anna"].last, now.events["anna"].ending

A RunSnapshot reads each of its parts when that is first asked for, so who wants the clock alone reads no rows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Set
from functools import cached_property, partial

from swarm.records.events import Ending, NodeEvents
from swarm.records.files import constant_j, known_experiment, maker_of, read_clock, read_peers
from swarm.records.finished import Finished, finished, rounds_done, rounds_expected
from swarm.records.growing import Follower, GrowingLines
from swarm.records.hints import Hint, HintFacts, hints_of, merged, seconds_needed
from swarm.records.listing import count_stage, nodes_with_logs, saved_rounds
from swarm.records.liveness import GENERATOR
from swarm.records.progress import NodeProgress, ProgressFollower
from swarm.store.run import Run
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.messages import ExperimentFile, PeerFile, StateFile

MOST_COUNTED = 1_000_000
"""Completions of a group; a stranger may have written any number."""
LAST_WORDS = 64 * 2**10
"""Bytes of a node's events in which its end is said, if it was."""


class RunReader:
    """Owns how far each growing file of a run has been read."""

    def __init__(
        self, run: Run, only: Set[str] = frozenset(), begin: Callable[[str], NodeProgress] | None = None
    ) -> None:
        """Make one that has read nothing yet.

        Args:
            only: the nodes that are looked at; empty: all.
            begin: makes what all rows of a node are taken into; again, where its file is another one than before.
                None: no rows are needed but the last ones, and what those before add up to.
        """
        self.run = run
        self._begin = begin
        self.only = only
        self._progress: dict[str, Follower[NodeProgress] | ProgressFollower] = {}
        self._events: dict[str, Follower[NodeEvents]] = {}

    def refresh(self) -> RunSnapshot:
        """Returns the run by now; use no part of the snapshot before for the first time any more."""
        return RunSnapshot(self)

    def progress_of(self, node: str) -> NodeProgress:
        """Reads on in a node's rows, and returns what they add up to by now."""
        if node not in self._progress:
            store, key, begin = self.run.store, keys.metrics(node), self._begin
            self._progress[node] = Follower(store, key, partial(begin, node)) if begin else ProgressFollower(store, key)
        return self._progress[node].look()

    def ending_of(self, node: str) -> Ending | None:
        """Returns how a node's last life ended, by the last lines of its events; None: it lives, or nobody said."""
        if node in self._events:
            return self.events_of(node).ending
        last = NodeEvents()
        last.observe(GrowingLines(self.run.store, keys.events(node)).look_at_end(LAST_WORDS).records)
        return last.ending

    def events_of(self, node: str) -> NodeEvents:
        """Reads on in a node's events, and returns what they add up to by now."""
        follower = Follower(self.run.store, keys.events(node), NodeEvents)
        return self._events.setdefault(node, follower).look()


class RunSnapshot:
    """A run at one moment. Every part raises StoreError where the place itself fails."""

    def __init__(self, reader: RunReader) -> None:
        self.run = reader.run
        self._reader = reader
        clock = read_clock(self.run)
        self.state: StateFile | None = clock.state
        """The coordinator's clock, None where there is none that can be read."""
        self.problem = clock.problem
        """Why it cannot be read."""

    def _asked_for(self, node: str) -> bool:
        return not self._reader.only or node in self._reader.only

    @cached_property
    def experiment(self) -> ExperimentFile | None:
        """Reads the experiment's settings; None where nobody wrote them, or they cannot be read."""
        return known_experiment(self.run)

    @property
    def made_by(self) -> str:
        """Returns the other program that made the run, such as `rl-swarm`; empty: nodes of this one, or nobody yet."""
        return maker_of(self.experiment)

    @property
    def own_clocks(self) -> bool:
        """Tells whether the experiment has no coordinator, so that each node keeps its own clock."""
        return self.experiment is not None and self.experiment.identity.get("clock") == "own"

    @cached_property
    def peers(self) -> dict[str, PeerFile]:
        """Returns the registrations that can be read."""
        return {peer.peer_id: peer for peer in read_peers(self.run, self._reader.only) if self._asked_for(peer.peer_id)}

    @cached_property
    def logged(self) -> list[str]:
        """Returns nodes that have logs."""
        return [node for node in nodes_with_logs(self.run) if self._asked_for(node)]

    @property
    def nodes(self) -> list[str]:
        """Returns all that registered or have logs."""
        return sorted({*self.peers, *self.logged})

    @cached_property
    def progress(self) -> dict[str, NodeProgress]:
        """Reads for each node with logs what its rows add up to."""
        return {node: self._reader.progress_of(node) for node in self.logged}

    @cached_property
    def events(self) -> dict[str, NodeEvents]:
        """Reads for each node with logs what its events add up to."""
        return {node: self._reader.events_of(node) for node in self.logged}

    def hints(self) -> list[Hint]:
        """Returns the hints that say why nodes learn nothing although there is no error."""
        if self.made_by:  # its rows lack what the rules look at
            return []
        said = self.experiment.identity.get("generations") if self.experiment else None
        generations = said if type(said) is int and 0 < said <= MOST_COUNTED else HintFacts().generations
        refused, accepted = self._said_of_others()
        of_all = HintFacts(
            generations=generations,
            external_groups=constant_j(self.experiment) or 0,
            experiment=self.run.experiment,
            round_interval=self.state.round_interval if self.state else 0.0,
            over=self.state.round if self.state and self.state.finished else 0,
            opened=self.state.round + (not self.state.finished) if self.state else 0,
        )
        found = (
            hints_of(
                node,
                of_node.recent,
                of_all._replace(
                    refused=refused.get(node, {}),
                    accepted=accepted[node],
                    trains=node not in self.generators,
                    slow={peer: seconds for peer, seconds in self.slow.items() if peer != node},
                ),
            )
            for node, of_node in self.progress.items()
        )
        return merged(hint for of_node in found for hint in of_node)

    @cached_property
    def slow(self) -> dict[str, float]:
        """Returns node -> seconds that its round takes, of those whose rounds take longer than the clock's last."""
        longest = self.state.round_interval if self.state else 0.0
        needs = {node: seconds_needed(of_node.recent) for node, of_node in self.progress.items() if of_node.recent}
        return {node: seconds for node, seconds in needs.items() if seconds > longest > 0}

    def _said_of_others(self) -> tuple[dict[str, Counter[str]], Counter[str]]:
        """Returns node -> why others refused its groups, and how many of them others verified, in one pass over all
        rows."""
        refused: dict[str, Counter[str]] = defaultdict(Counter)
        accepted: Counter[str] = Counter()
        for node, of_node in self.progress.items():
            said = of_node.counts["accepted_by_peer"]
            accepted.update({peer: count for peer, count in said.items() if peer != node})
            for peer, reasons in of_node.refused_by_peer.items():
                if peer != node:
                    refused[peer].update(reasons)
        return refused, accepted

    @cached_property
    def generators(self) -> frozenset[str]:
        """Returns nodes that registered as such: they answer and train nothing."""
        return frozenset(
            node for node, peer in self.peers.items() if peer.node_role == GENERATOR or peer.trains is False
        )

    @cached_property
    def workers(self) -> list[str]:
        """Returns nodes that train: those that registered as such, and those that are known by their rows alone."""
        registered = {node for node, peer in self.peers.items() if peer.node_role == "worker"}
        unknown = {node for node, of_node in self.progress.items() if of_node.last and node not in self.peers}
        return sorted(registered | unknown)

    @cached_property
    def finished(self) -> Finished | None:
        """Returns after how many rounds the run is over, and by whom; None for one that goes on, or was stopped or
        killed."""
        if self.state is not None and self.state.finished:
            return finished(self.state, ())
        logged = set(self.logged)
        return finished(self.state, (self._reader.ending_of(n) if n in logged else None for n in self.workers))

    @property
    def rounds_done(self) -> int:
        """Returns rounds behind the run: by its clock, and by those who went further without it."""
        found = self.progress.values()
        if self.made_by:  # not every round of such a run has a row
            return max([0, *(peer.round + 1 for peer in self.peers.values()), *(p.rounds_done for p in found)])
        return rounds_done(self.state, [p.own_rounds_done for p in found], [p.rounds_done for p in found])

    @property
    def is_saved(self) -> bool:
        """Every worker has a checkpoint of its last round; True as well where there is no checkpoint at all."""
        saved = saved_rounds(self.run)
        done = {node: self.progress[node].rounds_done for node in self.workers if node in self.progress}
        return not saved or all(max(saved.get(node, ()), default=0) >= rounds for node, rounds in done.items())

    @property
    def rounds_expected(self) -> int | None:
        """Returns how many rounds there will be; None while nobody has said."""
        return rounds_expected(self.state, self.finished)

    def in_open_stage(self, prefix: str) -> set[str]:
        """Returns nodes that have a file of the clock's stage so far, in `rollouts` or `rewards`."""
        key = RoundKey(self.state.round, self.state.stage) if self.state else RoundKey(0)
        return count_stage(self.run.store, f"{prefix}/round_{key.round}/stage_{key.stage}")[0]


def snapshot(run: Run) -> RunSnapshot:
    """Returns a run by now, for those who look once."""
    return RunReader(run).refresh()
