"""Whose presence counts: who is waited for in a round (Attendance) and before the first (Settling), whose reward counts
(Submissions).

Attendance decides which live peers are worth waiting for. Pure.

    never seen to do its part ── a newcomer: waited for while the grace lasts that all newcomers of a run share
        │ earn: it did (a coordinator: a reward that counts; a worker: rollouts that it verified)
        ▼
    earned ── waited for until it was absent MOST_ABSENCES times in a row; at once again when it is seen again

Being alive costs a peer nothing but a moving heartbeat, and a name costs nothing at all: the rounds of others must hang
on neither. So the grace is one, not one for each name. It is MOST_ABSENCES rounds that ended without a newcomer, and as
much time as these may take, counted while newcomers alone are missing. What was lost to newcomers that then did their
part is given back; what is lost to names that never do is lost once per run, however many they are.

Settling decides when workers that are started one after the other begin together. Pure.

    nobody is active ──the first is──▶ settling ──▶ begin: one is active, nobody who was counted is starting, and a
                                          │         │      settling time has passed since the last new name;
                                          │         │      or all that were `known` before are active
                                          └─────────┴───── at the latest after the longest time

A name counts once, when it is first seen: a node that crashes and comes back restarts no wait. Names cost a stranger
nothing, so the whole wait has a longest time. It counts from when the first worker was active.

Submissions finds the rewards of a round that count: well formed, in its place, with rollouts beside them.

A name in a folder costs nothing. So each file is read, until it is a reward, and then no more; and of a node that was
never seen to publish a round, the rollouts of that round must lie there as well. Of a node that was, the reward is
enough: its rollouts may be late, cleaned away, or have somebody else's object in their place. Where each read is paid
for and nothing is signed, its listed reward is taken for one: a stranger could as well have written a whole one there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from swarm.config import Settings, variable
from swarm.errors import StoreError
from swarm.records.files import SMALL_FILE, read_each_signed
from swarm.records.listing import NodeFiles
from swarm.store.base import Entry
from swarm.store.run import Run
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.messages import RewardFile

MOST_ABSENCES = 3
"""Rounds in a row that a peer may miss before nobody waits for it; and rounds that newcomers may cost together."""
MOST_EARNED = 4096
"""Peers whose attendance is remembered, those that did their part last."""
_MOST_LOSSES = 64


class _Loss(NamedTuple):
    names: frozenset[str]
    """The newcomers that were waited for."""
    seconds: float
    rounds: int
    """1 if the round then ended without one of them."""


class Attendance:
    """Remembers, for one node's life, which peers have earned that they are waited for."""

    def __init__(self, longest: float) -> None:
        """`longest`: seconds that the longest wait of a round takes."""
        self.longest = longest
        self._earned: dict[str, int] = {}
        """Peer -> how often it has been absent in a row."""
        self._losses: list[_Loss] = []
        self._hoped: frozenset[str] = frozenset()
        """Newcomers that alone were missing at some moment of this wait."""
        self._waited = 0.0
        """Seconds of this wait in which newcomers alone were missing, up to `_since`."""
        self._since: float | None = None

    # ── what is known ───────────────────────────────────────────────────────────────────────────────────────────────
    @property
    def earned(self) -> Set[str]:
        """Returns the peers that have done their part at some time."""
        return self._earned.keys()

    def awaited(self, live: Iterable[str]) -> frozenset[str]:
        """Returns those of the live peers that are worth waiting for."""
        absent = {peer for peer, absences in self._earned.items() if absences >= MOST_ABSENCES}
        alive = frozenset(live)
        return (alive if self._grace_lasts() else alive.intersection(self._earned)) - absent

    def _grace_lasts(self) -> bool:
        self._losses = [loss for loss in self._losses if not loss.names <= self.earned]
        seconds = self._waited + sum(loss.seconds for loss in self._losses)
        return seconds < MOST_ABSENCES * self.longest and sum(loss.rounds for loss in self._losses) < MOST_ABSENCES

    # ── what happens ────────────────────────────────────────────────────────────────────────────────────────────────
    def earn(self, peers: Iterable[str]) -> None:
        """Notes that these peers have done their part, in this round or one shortly before."""
        for peer in peers:
            self._earned.pop(peer, None)
            self._earned[peer] = 0
        while len(self._earned) > MOST_EARNED:
            del self._earned[next(iter(self._earned))]

    def seen(self, peers: Iterable[str]) -> None:
        """Takes note of a sign that these peers did their part. A sign proves nothing: those that have earned it are
        present."""
        for peer in self._earned.keys() & set(peers):
            self._earned[peer] = 0

    def wait(self, live: Iterable[str], present: Set[str], now: float) -> frozenset[str]:
        """A round is waited for: who of the awaited is missing at this moment, seconds."""
        if self._since is not None:
            self._waited = min(self._waited + max(0.0, now - self._since), self.longest)
        missing = self.awaited(live) - present
        only_newcomers = bool(missing) and not missing & self.earned
        self._since = now if only_newcomers else None
        if only_newcomers:
            self._hoped |= missing
        return missing

    def close(self, live: Iterable[str], present: Set[str]) -> None:
        """The wait is over: these were alive, and these are there."""
        awaited, alive = self.awaited(live), set(live)
        late = awaited - present - self.earned
        if names := self._hoped | late:
            self._losses.append(_Loss(names, self._waited, int(bool(late))))
        if len(self._losses) > _MOST_LOSSES:
            a, b, *others = self._losses
            self._losses = [_Loss(a.names | b.names, a.seconds + b.seconds, a.rounds + b.rounds), *others]
        absent = alive - present
        for peer, absences in self._earned.items():
            self._earned[peer] = absences + 1 if peer in absent else 0
        self._hoped, self._waited, self._since = frozenset(), 0.0, None


MOST_COUNTED = 4096
"""Names that can prolong a wait."""
INTERVALS = 2
"""The longest wait, in round intervals."""


def in_words(settings: Settings) -> dict[str, str]:
    """Returns, for the log, when the beginning is over and how to go without it."""
    return {
        "opens": f"{settings.seconds_to_settle:g} s after the last new worker, once all are ready; "
        f"{INTERVALS * settings.round_interval:g} s after the first is ready at the latest",
        "skip": f"give {variable('expected_workers')} a number or names, or set {variable('settle_time')}=0",
    }


class Settling:
    """One beginning, of one observer."""

    def __init__(self, settle_time: float, longest: float, known: frozenset[str] = frozenset()) -> None:
        """Begin to wait.

        Args:
            settle_time: seconds without a new name.
            longest: seconds after the first worker was active.
            known: workers of the run's last rounds; once all of them are active, nobody else is waited for.
        """
        self._settle_time = settle_time
        self._longest = longest
        self._known = known
        self._counted: set[str] = set()
        self._last_new = 0.0
        self._first_active: float | None = None

    def look(self, now: float, starting: Set[str], active: Set[str]) -> float | None:
        """Takes note of a look, and returns when it begins if nothing new happens; infinite while nobody is ready.

        Args:
            now: monotonic seconds, as is what is returned; None: it begins now.
            starting: live workers that are not ready yet.
            active: live workers that are.
        """
        new = (starting | active) - self._counted
        if new and len(self._counted) < MOST_COUNTED:
            self._counted |= new
            self._last_new = now
        if not active:
            return math.inf
        if self._first_active is None:
            self._first_active = now
        latest = self._first_active + self._longest
        begins = latest if starting & self._counted else min(self._last_new + self._settle_time, latest)
        return None if now >= begins or (self._known and self._known <= active) else begins


MOST_READ = 512
"""Files of one stage that are read in one look, those of nodes that have published before first."""
TRACES = 5
"""A clock that was kept by the rules stands no more than so many rounds after a reward, one that came late included."""
MOST_PROVEN = 4096
"""Nodes that are remembered."""


def has_submitted(run: Run, key: RoundKey, node: str) -> bool:
    """Tells whether a node's reward file is one, and its own. Blocking."""
    return are_submitted(run, key, [node])[node]


def are_submitted(run: Run, key: RoundKey, nodes: Sequence[str]) -> dict[str, bool]:
    """Tells of each of some nodes what has_submitted tells. Blocking."""
    read = read_each_signed(run, [keys.reward(key, node) for node in nodes], RewardFile)
    said = [one and (one[0].peer_id, one[0].round, one[0].stage) for one in read]
    return {node: of_node == (node, *key) for node, of_node in zip(nodes, said, strict=True)}


def is_expected(run: Run, node: str, expected: frozenset[str]) -> bool:
    """Tells whether a node is one of those that are expected by name or by the key that they sign with; of none, all
    are."""
    return not expected or node in expected or run.trust.key_of(node) in expected


class Submissions:
    """Keeps which rewards were found so far, and which nodes have proven that they publish."""

    def __init__(
        self, run: Run, now: Callable[[], float] = lambda: 0.0, expected: frozenset[str] = frozenset()
    ) -> None:
        """Make one that has seen nothing.

        Args:
            now: monotonic seconds; who looks once needs none.
            expected: names or keys of the workers that alone say where the clock has come to; none: all do.
        """
        self._run = run
        self._expected = expected
        self._files = NodeFiles(run.store, now)
        self._read: dict[RoundKey, dict[str, tuple[str, bool]]] = {}
        """Node -> the tag of its reward file, and whether that is one."""
        self._counted: dict[RoundKey, tuple[Mapping[str, Entry], frozenset[str]]] = {}
        """Listings in which nothing was left to find out, each with what counts of it."""
        self._proven: dict[str, None] = {}

    @property
    def proven(self) -> Set[str]:
        """Returns nodes that were seen to have published a round: a reward that is one, and rollouts."""
        return self._proven.keys()

    def of(self, key: RoundKey, max_age: float = 0.0) -> frozenset[str]:
        """Returns the nodes with a reward that counts for this round and stage. Blocking. Raises StoreError.

        Args:
            max_age: seconds for which a listing is good enough.
        """
        known = self._read.setdefault(key, {})
        settled = {node for node, (_, is_one) in known.items() if is_one}
        known_nodes = {*islice(self._proven, MOST_READ), *islice(known, MOST_READ)}
        found = self._files.find(keys.rewards(key), known_nodes, tags=True, max_age=max_age, settled=settled)
        listed, counted = self._counted.get(key, ({}, frozenset[str]()))
        if found is listed:
            return counted
        rewards = self._rewards(key, found, settled)
        if strangers := rewards - self.proven:
            for node in sorted(self._with_rollouts(key, strangers))[: MOST_PROVEN - len(self._proven)]:
                self._proven[node] = None
        counted = frozenset(rewards & self.proven)
        if len(counted) == len(found):
            self._counted[key] = found, counted
        return counted

    def lie_before(self, round_: int) -> bool:
        """Tells whether a reward of who has a say lies in one of the TRACES rounds before this one. Blocking."""
        rounds = range(max(0, round_ - TRACES), round_)
        with suppress(StoreError):
            submitted = (node for before in reversed(rounds) for node in self.of(RoundKey(before)))
            return any(is_expected(self._run, node, self._expected) for node in submitted)
        return False

    def forget(self, key: RoundKey) -> None:
        """Forgets what was read of a round, but not who has proven himself by it."""
        self._read.pop(key, None)
        self._counted.pop(key, None)

    def forget_before(self, round_: int) -> None:
        self._read = {key: nodes for key, nodes in self._read.items() if key.round >= round_}
        self._counted = {key: counted for key, counted in self._counted.items() if key.round >= round_}

    def _rewards(self, key: RoundKey, found: Mapping[str, Entry], settled: Set[str]) -> Set[str]:
        """Returns the nodes whose reward file is one: what was one once stays one."""
        known = self._read[key]
        unsettled = found.keys() - settled
        new = [node for node in unsettled if known.get(node, (None, False))[0] != found[node].tag]
        taken = {node for node in new if self._goes_unread(node, found[node])}
        known |= {node: (found[node].tag, True) for node in taken}
        unread = (node for node in new if node not in taken)
        read = sorted(unread, key=lambda node: (node not in self._proven, node))[:MOST_READ]
        with suppress(StoreError):  # they cannot be read now
            known |= {node: (found[node].tag, is_one) for node, is_one in are_submitted(self._run, key, read).items()}
        return (found.keys() & settled) | {node for node in unsettled if known.get(node, ("", False))[1]}

    def _goes_unread(self, node: str, reward: Entry) -> bool:
        """Tells whether a listed reward is taken for one without a look into it."""
        paid = self._run.store.facts().spent is not None
        return paid and not self._run.trust.asks and node in self._proven and 0 < reward.size <= SMALL_FILE

    def _with_rollouts(self, key: RoundKey, nodes: Set[str]) -> Set[str]:
        try:
            return nodes & self._files.find(keys.rollouts(key), sorted(nodes)[:MOST_READ]).keys()
        except StoreError as error:  # what stands where they should lie is nobody's fault who published
            return nodes if error.blocked else frozenset()
