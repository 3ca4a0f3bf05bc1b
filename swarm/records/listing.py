"""Lists what lies where: the names of a prefix, the stages' files of rollouts/ and rewards/, the checkpoints, and
sizes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Set
from contextlib import suppress
from typing import NamedTuple

from swarm.errors import ProtocolError, StoreError
from swarm.store.base import MOST_NAMES, PAGE, Entry, Kind, Page, Store
from swarm.store.run import Run
from swarm.types import RoundKey
from swarm.wire import keys

MOST_LOOKED_INTO = 200
"""Experiments of a place that a command looks into: each costs some listings and reads, and a name costs a stranger
next to nothing."""
MOST_WALKED = 50_000
"""Names that are looked at for the size of an experiment: some seconds."""
COPIED_TOGETHER = 32
"""Rounds that are copied at a time: in a copy that broke off rollouts are so many rounds further than rows, and so many
of the last rows lack their rewards."""
_MOST_LISTED = 16
"""Listings that are held."""
LISTINGS_APART = 50.0
"""A flooded prefix is listed so many-th part of the time."""
MOST_AT_ANY_TIME = 64
"""Names of a prefix that is listed whenever somebody looks."""
SECONDS_PER_NAME = 0.001
"""For so long a listing is good enough, per name beyond those: a thousand names are gone through once a second."""
MOST_BY_NAME = 64
"""Files whose tags are looked for one by one; of more all tags are listed."""
_NAMES_OF_SYSTEMS = frozenset(
    {".DS_Store", ".directory", ".localized", ".stfolder", ".stignore", ".stversions", "Icon\r"}
    | {"$RECYCLE.BIN", "System Volume Information", "Thumbs.db", "desktop.ini", "lost+found"}
)
_BEGINNINGS_OF_SYSTEMS = ("._", ".Trash", ".dropbox", ".fuse_hidden", ".nfs", ".syncthing.")
"""macOS' second files, removed files that are still open, what is on the way."""


def is_of_a_system(name: str) -> bool:
    """Tells whether file managers and synchronisers leave a name in any folder, so that it says nothing about a run."""
    return name.startswith(_BEGINNINGS_OF_SYSTEMS) or name in _NAMES_OF_SYSTEMS


def entries(store: Store, prefix: str, *, tags: bool = False) -> Iterator[Entry]:
    """Yields all names of a prefix, in order, at most MOST_NAMES of them. Raises StoreError if it cannot be listed."""
    for page in _pages(store, prefix, tags=tags):
        yield from page.entries


def _pages(store: Store, prefix: str, *, tags: bool) -> Iterator[Page]:
    after, left, more = "", MOST_NAMES, True
    while more and left > 0:
        page = store.list(prefix, after=after, limit=left, tags=tags)
        yield page
        after, left, more = page.next, left - max(1, page.looked, len(page.entries)), bool(page.next)


def good_for(names: int) -> float:
    """Returns the seconds for which a listing of so many names is good enough."""
    return SECONDS_PER_NAME * max(0, names - MOST_AT_ANY_TIME)


def nodes_in(store: Store, prefix: str) -> set[str]:
    """Returns the nodes that have a `{node}.json` in this prefix. Raises StoreError if it cannot be listed."""
    node_of = keys.nodes_by_name(prefix)
    return {node for entry in entries(store, prefix) if (node := node_of(entry.name))}


class NodeFiles:
    """The `{node}.json` of some prefixes, looked for again and again.

    Names cost a stranger nothing, and a listing takes the longer the more there are, those that none shows included. So
    after one of more than PAGE names beside those that the caller knows, the prefix is not listed for LISTINGS_APART
    times as long as that took, and the nodes that the caller knows are looked for by name.
    """

    def __init__(self, store: Store, now: Callable[[], float]) -> None:
        """`now`: monotonic seconds."""
        self._store = store
        self._now = now
        self._listed: dict[tuple[str, bool], tuple[float, dict[str, Entry]]] = {}
        """The last listings, each with when it was made."""
        self._list_at: dict[str, float] = {}
        """Prefix of too many names -> when it may be listed again."""

    def find(
        self,
        prefix: str,
        known: Collection[str],
        *,
        tags: bool = False,
        max_age: float = 0.0,
        settled: Set[str] = frozenset(),
    ) -> dict[str, Entry]:
        """Returns node -> what stands at its name. Blocking.

        Args:
            max_age: seconds for which what was listed is good enough; a listing of many names is in any case for a
                moment.
            settled: nodes whose tags nobody asks for.

        Raises:
            StoreError: the prefix cannot be listed.
        """
        began = self._now()
        listed = self._listed.get((prefix, tags))
        if listed and began - listed[0] < max(max_age, good_for(len(listed[1]))):
            return listed[1]
        if began < self._list_at.get(prefix, -math.inf):
            return self.by_name(prefix, known)
        pages = self._list(prefix, settled) if tags else [*_pages(self._store, prefix, tags=False)]
        node_of = keys.nodes_by_name(prefix)
        found = {node: entry for page in pages for entry in page.entries if (node := node_of(entry.name))}
        flooded = sum(page.looked for page in pages) - len(found.keys() & known) > PAGE
        ended = self._now()
        self._list_at = {listed: at for listed, at in self._list_at.items() if at > ended}
        if flooded:
            self._list_at[prefix] = ended + LISTINGS_APART * (ended - began)
        self._listed.pop((prefix, tags), None)
        if not flooded:
            self._listed[prefix, tags] = began, found
        if len(self._listed) > _MOST_LISTED:
            del self._listed[next(iter(self._listed))]
        return found

    def _list(self, prefix: str, settled: Set[str]) -> list[Page]:
        """Lists a prefix with the tags of all files but those of `settled`: a folder is asked for each tag by itself, a
        bucket tells them for nothing."""
        if settled and self._store.facts().spent is None:
            pages = [*_pages(self._store, prefix, tags=False)]
            ours = (entry.name for page in pages for entry in page.entries if entry.kind is Kind.FILE)
            node_of = keys.nodes_by_name(prefix)
            wanted = {name for name in ours if node_of(name) not in settled}
            if len(wanted) <= MOST_BY_NAME:
                return [page._replace(entries=self._with_tags(prefix, page.entries, wanted)) for page in pages]
        return [*_pages(self._store, prefix, tags=True)]

    def _with_tags(self, prefix: str, listed: list[Entry], wanted: Set[str]) -> list[Entry]:
        looked_at = (self._look_at(f"{prefix}/{entry.name}") if entry.name in wanted else entry for entry in listed)
        return [entry for entry in looked_at if entry]

    def _look_at(self, key: str) -> Entry | None:
        with suppress(ProtocolError):  # something else stands in the place of the prefix by now
            return self._store.stat(key)
        return None

    def by_name(self, prefix: str, known: Collection[str]) -> dict[str, Entry]:
        """Looks at the files of some nodes, without a listing. Blocking. Raises StoreError."""
        return {node: entry for node in sorted(known) if (entry := self._look_at(f"{prefix}/{node}.json"))}


def rounds_in(store: Store, prefix: str) -> list[int]:
    """Returns the R of all names `round_R` in this prefix, in order. Raises StoreError if it cannot be listed."""
    return sorted(r for entry in entries(store, prefix) if (r := keys.round_of(entry.name)) is not None)


def nodes_with_logs(run: Run) -> list[str]:
    """Returns nodes that have a folder for logs, sorted. Raises StoreError if they cannot be listed."""
    return sorted(entry.name for entry in entries(run.store, keys.LOGS) if keys.is_node_id(entry.name))


class Counted(NamedTuple):
    """A counted prefix: which nodes have a file for which stage, and what else lies there."""

    nodes: dict[RoundKey, set[str]]
    strays: list[str]
    """Keys with temporary, conflicting and otherwise unexpected names."""

    @property
    def files(self) -> Iterator[tuple[RoundKey, str]]:
        """Yields stage and node of each file, in this order."""
        return ((key, node) for key in sorted(self.nodes) for node in sorted(self.nodes[key]))


def count_files(store: Store, prefix: str, rounds: Collection[int] | None = None) -> Counted:
    """Returns all of rollouts/ or rewards/. Raises StoreError if the prefix itself cannot be listed.

    Args:
        rounds: these alone, without a listing of all; None: all.
    """
    counted = Counted({}, [])
    asked = None if rounds is None else [Entry(f"round_{round_}", Kind.PREFIX) for round_ in sorted(rounds)]
    for of_round in entries(store, prefix) if asked is None else asked:
        round_, place = keys.round_of(of_round.name), f"{prefix}/{of_round.name}"
        if round_ is None or of_round.kind is not Kind.PREFIX:
            counted.strays.append(place)
            continue
        for of_stage in _listed(store, place, counted.strays):
            stage, below = keys.stage_of(of_stage.name), f"{place}/{of_stage.name}"
            if of_stage.kind is not Kind.PREFIX or stage is None:
                counted.strays.append(below)
            else:
                nodes, strays = count_stage(store, below)
                counted.nodes[RoundKey(round_, stage)] = nodes
                counted.strays.extend(strays)
    return counted


def _listed(store: Store, prefix: str, strays: list[str]) -> list[Entry]:
    """Returns the names of a prefix; where it cannot be listed, as a folder of no permissions, it is itself a stray."""
    try:
        return [*entries(store, prefix)]
    except StoreError:
        strays.append(prefix)
        return []


def count_stage(store: Store, prefix: str) -> tuple[set[str], list[str]]:
    """Returns the nodes that have a file in one stage's prefix, and the keys of names that are neither theirs nor a
    group's.

    What cannot be listed, such as a link that somebody put there, is itself a stray: those who only look go on.
    """
    strays = list[str]()
    found = [*_listed(store, prefix, strays)]
    node_of = keys.nodes_by_name(prefix)
    nodes = {entry.name: node_of(entry.name) for entry in found if entry.kind is not Kind.PREFIX}
    others = [f"{prefix}/{entry.name}" for entry in found if not nodes.get(entry.name)]
    return {node for node in nodes.values() if node}, strays + [key for key in others if not keys.group_file_of(key)]


def saved_rounds(run: Run) -> dict[str, list[int]]:
    """Returns node -> the rounds behind each of its checkpoints, in order. Raises StoreError: they cannot be listed."""
    found: dict[str, list[int]] = defaultdict(list)
    for rounds_done in rounds_in(run.store, keys.CHECKPOINTS):
        for entry in _listed(run.store, f"{keys.CHECKPOINTS}/round_{rounds_done}", []):
            if entry.kind is Kind.PREFIX and keys.is_node_id(entry.name):
                found[entry.name].append(rounds_done)
    return dict(found)


class Size(NamedTuple):
    """Says how large the files below a prefix are."""

    bytes: int
    whole: bool
    """False: there are more names than were looked at."""


def size_of(store: Store, prefix: str = "") -> Size:
    """Returns bytes of the files below a prefix, at most MOST_WALKED names, as far as it can be listed; no link is
    followed."""
    total, left, waiting = 0, MOST_WALKED, [prefix]
    while waiting:
        place = waiting.pop()
        with suppress(StoreError):
            for entry in entries(store, place, tags=True):
                if left == 0:
                    return Size(total, whole=False)
                left -= 1
                if entry.kind is Kind.PREFIX:
                    waiting.append(f"{place}/{entry.name}" if place else entry.name)
                else:
                    total += entry.size
    return Size(total, whole=True)
