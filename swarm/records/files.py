"""The small files of a run, each by its form, or refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import UNSET

from swarm import forms
from swarm.errors import ProtocolError, StoreError
from swarm.harmless import printable
from swarm.records.finished import can_be_written
from swarm.records.listing import NodeFiles, nodes_in
from swarm.records.liveness import ACTIVE, STOPPED
from swarm.records.retention import WorkerNeed
from swarm.store.base import Blob, Entry, Kind, Store, get_many
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.codec import DEEPEST, decode, nests_too_deeply
from swarm.wire.judge_messages import ExamRow
from swarm.wire.messages import ExperimentFile, PeerFile, StateFile

Form = TypeVar("Form", bound=msgspec.Struct)
SMALL_FILE = 64 * 1024
"""Bytes that no state, reward or vote comes near."""
LARGEST_REGISTRATION = 8 * 1024
"""Bytes. One has some 500; all of them are held in memory, and anybody may add more."""
MOST_REGISTRATIONS = 1000
"""Registrations read in one look: some 25 ms."""
MOST_A_SECOND = 16
"""Registrations of nodes at work that are read again in a second, on average."""
READS_AT_FIRST = 2
"""Versions of a registration that are read in any case: a node shows by two of them that it beats."""
LONGEST_MAKER = 40
"""Characters."""
_EVERYTHING = WorkerNeed(0, -1)
"""Need of a worker of which nothing is known."""
LARGEST_EXAM = 16 * 2**20
"""Bytes."""


class WatchedClock(NamedTuple):
    """The coordinator's clock, as one who only looks sees it."""

    state: StateFile | None
    """None while there is none, or none that can be read."""
    problem: str = ""
    """Why it cannot be read; empty if it can, or is not there."""


def read_form(store: Store, key: str, form: type[Form], limit: int = SMALL_FILE) -> Form | None:
    """Returns one file, or None if it is not there.

    Raises:
        ProtocolError: it is not of that form, or larger than `limit` bytes, or no file at all.
    """
    try:
        return decode(store.get(key, limit).data, form, store.describe(key))
    except FileNotFoundError:
        return None


def read_signed(run: Run, key: str, form: type[Form]) -> Form | None:
    """Reads a file by its form, as read_form does; its owner may have to have signed it."""
    try:
        return decode(run.get_checked(key, SMALL_FILE).data, form, run.store.describe(key))
    except FileNotFoundError:
        return None


def read_each_signed(
    run: Run, places: Sequence[str], form: type[Form], limit: int = SMALL_FILE
) -> list[tuple[Form, str] | None]:
    """Returns several files as read_signed does, each with its version; None for one that is not there, or that is not
    to be taken or believed."""
    blobs = get_many(run.store, places, limit)
    return [_believed(run, place, blob, form) for place, blob in zip(places, blobs, strict=True)]


def _believed(run: Run, place: str, blob: Blob | ProtocolError | None, form: type[Form]) -> tuple[Form, str] | None:
    if not isinstance(blob, Blob):
        return None
    try:
        run.trust.check(blob.data, place)
        return decode(blob.data, form, place), blob.tag
    except ProtocolError:
        return None


def read_state(run: Run) -> StateFile | None:
    """Returns the round clock, or None before the first state was written. Raises ProtocolError for a torn or foreign
    one."""
    return read_signed(run, keys.STATE, StateFile)


def read_clock(run: Run) -> WatchedClock:
    """Returns the round clock for those who only look; none that no coordinator can have written.

    That is a round beyond the last one or an end before it, or anything in the name of a coordinator after it left.
    """
    try:
        state = read_state(run)
    except ProtocolError as error:
        return WatchedClock(None, str(error))
    where = run.store.describe(keys.STATE)
    if state and not can_be_written(state):
        said = f"round {state.round}{', finished' * state.finished}"
        return WatchedClock(None, f"unbelieved: {where}: no coordinator writes {said} of {state.max_rounds}")
    writer = read_peer(run, state.updated_by) if state and keys.is_node_id(state.updated_by) else None
    if state and writer and writer.status == STOPPED and 0 <= writer.round < state.round:
        left = f"{state.updated_by} left at round {writer.round}"
        return WatchedClock(None, f"unbelieved: {where}: expected round {writer.round}, got {state.round}: {left}")
    return WatchedClock(state)


def read_experiment(run: Run) -> ExperimentFile | None:
    """Reads the settings that make the experiment what it is; None before anybody wrote them. Raises ProtocolError as
    read_form does."""
    found = read_form(run.store, keys.EXPERIMENT, ExperimentFile)
    if found and nests_too_deeply(found):
        where = run.store.describe(keys.EXPERIMENT)
        raise ProtocolError("malformed", f"{where} nests objects and lists more than {DEEPEST} deep")
    return found


def known_experiment(run: Run) -> ExperimentFile | None:
    """Returns the same for those who only look; None, too, where they cannot be read."""
    try:
        return read_experiment(run)
    except ProtocolError:
        return None


def id_of(run: Run) -> str | None:
    """Returns the experiment's id, empty where it has none; None where nobody has begun it, or nobody can tell.
    Blocking."""
    try:
        found = read_experiment(run)
    except (ProtocolError, StoreError):
        return None
    return None if found is None else found.id or ""


def constant_j(experiment: ExperimentFile | None) -> int | None:
    """External groups of a round (J) as experiment.json says; None where a rule moves it, or nobody says it soundly."""
    identity = experiment.identity if experiment else {}
    asked = identity.get("external_groups")
    return asked if type(asked) is int and asked >= 0 and not identity.get("adaptive") else None


def maker_of(experiment: ExperimentFile | None) -> str:
    """Returns the other program that made a run, as its experiment.json says, short and printable; empty: nodes of this
    one."""
    said = experiment.made_by if experiment else UNSET
    return printable(said)[:LONGEST_MAKER] if isinstance(said, str) else ""


def read_peer(run: Run, node: str) -> PeerFile | None:
    """Returns a node's registration, or None where none can be read, or it speaks for another node."""
    found = _peers(run, [node]).get(node)
    return found[0] if found else None


class _Seen(NamedTuple):
    tag: str
    """The version that was read."""
    peer: PeerFile | None
    """None: nothing that can be read, or is to be believed."""
    read_at: float
    reads: int


class Registrations(NamedTuple):
    """Holds what one look at the registrations of a run found."""

    peers: list[PeerFile]
    """All that can be read, by name."""
    fresh: list[PeerFile]
    """Those of them that were read in this look."""
    stirred: frozenset[str]
    """Whose registrations were written again since the look before, and not read."""


class PeerReader:
    """Reads the registrations of a run again and again, each version of each once."""

    def __init__(self, run: Run, now: Callable[[], float] = lambda: 0.0, *, own: str = "", pause: float = 0.0) -> None:
        """Make one that has read nothing yet.

        Args:
            now: monotonic seconds; who looks once needs none.
            own: the node that reads, and knows what it wrote: its registration is left out.
            pause: seconds for which the registration of an active worker is not read again, though it beats.
        """
        self._run = run
        self._now = now
        self._own = own
        self._pause = pause
        self._files = NodeFiles(run.store, now)
        self._seen: dict[str, _Seen] = {}
        self._tags: dict[str, str] = {}
        """Node -> the version of its registration that was there at the last look."""
        self._listed: Mapping[str, Entry] = {}
        """The listing that was gone through last."""
        self._peers: dict[str, PeerFile] = {}
        """What could be read of it, in the order of names."""

    def read(
        self,
        first: Collection[str] = (),
        max_age: float = 0.0,
        at_once: Collection[str] = (),
        alive: Collection[str] = (),
    ) -> Registrations:
        """Look at the registrations, at most MOST_REGISTRATIONS of them. Blocking.

        Each look returns what it read itself: looks may overlap, and what one has read the other does not read again.
        While a listing is good, only those who are waited for are looked at.

        Args:
            max_age: seconds for which what was listed is good enough.
            first: nodes that are read before any other, such as those known to be alive, and alone while a flood of
                registrations is not listed again: it costs a look some time and nobody the sight of its peers.
            at_once: nodes that are waited for: theirs are looked at by name, and read without any pause.
            alive: nodes that need not show that they are; theirs are read after the pause alone.

        Raises:
            StoreError: they cannot be listed.
        """
        listed = self._files.find(keys.PEERS, first, tags=True, max_age=max_age)
        is_new = listed is not self._listed
        found = (listed if is_new else {}) | (self._files.by_name(keys.PEERS, at_once) if max_age else {})
        if not found and not is_new:
            return Registrations([*self._peers.values()], [], frozenset())
        there = {node: e.tag for node, e in found.items() if e.kind is Kind.FILE and node != self._own}
        nodes = sorted([*sorted(there.keys() & set(first)), *sorted(there.keys() - set(first))][:MOST_REGISTRATIONS])
        now, pause = self._now(), max(self._pause, len(nodes) / MOST_A_SECOND if self._pause else 0.0)
        new = [node for node in nodes if self._is_due(node, there[node], now - pause, at_once, alive)]
        read = _peers(self._run, new)
        for node in new:
            self._note(node, there[node], read[node][0] if node in read else None)
        stirred = frozenset(node for node in nodes if self._tags[node] != there[node])
        self._tags |= {node: there[node] for node in stirred}
        looked_at = {node: self._seen[node].peer for node in nodes}
        if is_new and len(self._seen) > 2 * MOST_REGISTRATIONS:
            self._seen = {node: self._seen[node] for node in nodes}
            self._tags = {node: self._tags[node] for node in nodes}
        others = {} if is_new else {node: peer for node, peer in self._peers.items() if node not in looked_at}
        peers = others | {node: peer for node, peer in looked_at.items() if peer}
        self._listed, self._peers = listed, {node: peers[node] for node in sorted(peers)}
        fresh = [peer for node in new if (peer := looked_at[node])]
        return Registrations([*self._peers.values()], fresh, stirred)

    def read_one(self, node: str) -> PeerFile | None:
        """Reads one registration as `read_peer` does; while it stays as it is, no look reads it again. Blocking."""
        found = _peers(self._run, [node]).get(node)
        if found and node != self._own:
            self._note(node, found[1], found[0])
        return found[0] if found else None

    def _note(self, node: str, tag: str, peer: PeerFile | None) -> None:
        seen = self._seen.get(node)
        reads = 1 if seen is None else seen.reads + (seen.tag != tag)
        self._seen[node], self._tags[node] = _Seen(tag, peer, self._now(), reads), tag

    def _is_due(self, node: str, tag: str, since: float, at_once: Collection[str], alive: Collection[str]) -> bool:
        seen = self._seen.get(node)
        if seen is None or seen.tag == tag:
            return seen is None
        works = seen.peer is not None and seen.peer.node_role == "worker" and seen.peer.status == ACTIVE
        needed = not works or node in at_once or node not in alive or seen.reads < READS_AT_FIRST
        return needed or seen.read_at <= since


def read_peers(run: Run, first: Collection[str] = ()) -> list[PeerFile]:
    """Returns the registrations, for those who look once. As PeerReader.read."""
    return PeerReader(run).read(first).peers


def read_needs(run: Run, own: str = "") -> list[WorkerNeed]:
    """Returns what each worker still needs, as it has said; all rounds, where nobody can tell. Blocking.

    A worker that is dead needs what it said: it may come back. One that has stopped, and saved all that it did, needs
    nothing. Registrations that cannot be read, and more than are read, may be such workers'.

    Args:
        own: the node that asks, and knows what it needs.

    Raises:
        StoreError: they cannot be listed.
    """
    nodes = sorted(nodes_in(run.store, keys.PEERS) - {own})
    if len(nodes) > MOST_REGISTRATIONS:
        return [_EVERYTHING]
    peers = [peer for peer, _ in _peers(run, nodes).values()]
    workers = [peer for peer in peers if peer.node_role == "worker"]
    needing = (peer for peer in workers if peer.status != STOPPED or peer.needs_from <= peer.round)
    needs = [
        WorkerNeed(peer.needs_from, None if peer.status == STOPPED else peer.round, peer.peer_id) for peer in needing
    ]
    return needs + [_EVERYTHING] * (len(peers) < len(nodes))


def _peers(run: Run, nodes: list[str]) -> dict[str, tuple[PeerFile, str]]:
    """Returns the registrations that can be read and are to be believed, each with its version."""
    read = read_each_signed(run, [*map(keys.peer, nodes)], PeerFile, LARGEST_REGISTRATION)
    return {node: one for node, one in zip(nodes, read, strict=True) if one and one[0].peer_id == node}


def read_exam(run: Run) -> list[ExamRow]:
    """Reads the rows of an experiment's exam, without those whose means are no shares; empty where there was no exam.

    Raises:
        ProtocolError: the file is there and is no list of such rows.
    """
    try:
        rows = forms.decode(run.store.get(keys.EXAM, LARGEST_EXAM).data, list[ExamRow])
    except FileNotFoundError:
        return []
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        where = run.store.describe(keys.EXAM)
        raise ProtocolError("malformed", f"{where} is no list of exam rows: {error}") from None
    return [row for row in rows if all(0 <= share <= 1 for share in (row.pass_at_1, row.mean_reward, row.answered))]
