"""Copies an experiment from one store into another, key by key: a folder into a bucket, a bucket into a folder.

    rows are taken in ─▶ names are listed, what nodes write last first ─▶ files are copied, some rounds at a time:
                       completions, rollouts ─▶ a node's rows in one append ─▶ rewards, votes ─▶ the last ones
                       a round behind which a checkpoint lies is the last of its time, and the checkpoint follows

Of one round a node writes completions, rollouts, row, reward, vote, checkpoint, in this order. The rows say how far a
pass goes: what a node writes before a row is listed after it was read, and what it writes after a later one is left for
the next pass. So wherever the copying breaks off, `validate --partial` misses the clock's file at most, which comes at
the end, and a swarm goes on from the target. Each row has its rollouts, each reward its row. Rollouts are at most
COPIED_TOGETHER rounds further; where a node's last row has no reward, those of so many rounds before may lack theirs,
which the node makes up when it starts. Logs other than rows may be further. Done again, the copying goes on: what is
there already is compared, and left as it is where it is the same.

Only what a node, coordinator, judge or examiner writes is copied (`keys.owner_of`), byte by byte, so that signatures
stay. What goes from the source stays in the target.
"""

from __future__ import annotations

import filecmp
import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import median_low
from threading import Lock
from typing import NamedTuple, TypeVar

from swarm.errors import ProtocolError, StoreError
from swarm.records.archives import LARGEST_PART
from swarm.records.copying_rows import LogCopier, Place, changed
from swarm.records.files import LARGEST_EXAM, LARGEST_REGISTRATION, SMALL_FILE, read_clock
from swarm.records.listing import COPIED_TOGETHER, entries
from swarm.store.base import Deep, Entry, Kind, Store
from swarm.store.copies import copy_opened
from swarm.store.run import Run
from swarm.wire import keys

LARGEST_FILE = 64 * 2**20
"""Bytes; nodes take no larger ones."""
STILL_OPEN = 32
"""Rounds up to so many behind the run, or a node that does rounds, are looked through in every pass, others in a whole
one alone."""
MOST_HELD = 1000
"""Registrations that are read before all else and written last; more are copied as they are then."""
MOST_NAMED = 20
"""Keys that are named as left out."""
_ONCE = (keys.EXPERIMENT, keys.STUDY_RUN)
_BEFORE_ROWS = (keys.JUDGE_QUESTIONS, keys.COMPLETIONS, keys.ROLLOUTS, keys.WEIGHTS, keys.JUDGE_ANSWERS)
"""In the order in which nodes write them, as those below."""
_BEHIND_ROWS = (keys.REWARDS, keys.WINNERS, keys.CHECKPOINTS)
_BY_ROUND = {*_BEFORE_ROWS, *_BEHIND_ROWS} - {keys.CHECKPOINTS}
_AT_ONCE = 8
"""Files that are copied at the same time."""
_FEW = 16
"""Files that are read back one by one; of more the place's own digests are listed."""
_DEEPEST = 3
"""Prefixes below one of these."""
T = TypeVar("T")
_IsOpen = Callable[[int], bool]


@dataclass
class Copied:
    """Counts what one pass of copying has done."""

    files: int = 0
    same: int = 0
    """Files and checkpoints that were there already."""
    same_bytes: int = 0
    bytes: int = 0
    records: int = 0
    checkpoints: int = 0
    left_out: list[str] = field(default_factory=list)
    """At most MOST_NAMED keys that were not copied, and why."""
    strays: int = 0
    """Names that no node writes."""

    @property
    def anything(self) -> bool:
        return bool(self.files or self.records or self.checkpoints)


class ToDo(NamedTuple):
    """Says what a pass found that may be new."""

    files: int
    """Checkpoints count as one."""
    bytes: int
    """Without those of checkpoints."""


Tell = Callable[[Copied, ToDo], object]
"""Called after each file, from any thread."""


class _Behind(NamedTuple):
    """A reward, vote or checkpoint, and the row behind which its node writes it; in the order of copying."""

    place: Place
    order: int
    node: str
    key: str
    entry: Entry


class Copier:
    """Copies from one store into another, over any number of passes."""

    def __init__(
        self,
        source: Store,
        target: Store,
        from_archive: Store | None = None,
        to_archive: Store | None = None,
        *,
        tell: Tell = lambda done, to_do: None,
    ) -> None:
        """Args:
        source: only read.
        target: opened to write, for nobody else.
        from_archive: what was cleaned away of the source; copied after it, since files go from there to here.
        """
        self._tell, self._to_do = tell, ToDo(0, 0)
        self._source = source
        self._target = target
        self._archives = (from_archive, to_archive) if from_archive and to_archive else None
        self._versions: dict[str, str] = {}
        """Key -> version of the source's file that the target has."""
        self._there: dict[str, dict[str, str]] = {}
        """Prefix of the target -> names in it when it was first written to, with their tags."""
        self._listed_whole: set[str] = set()
        """Prefixes of the target of which all below is in `_there`."""
        self._unread: dict[str, str] = {}
        """Key -> MD5 of what a place that is far took in this pass, and was not read back yet."""
        self._logs = LogCopier(source, target)
        self._saved: set[str] = set()
        """Prefixes of checkpoints that the target has."""
        self._pass = Copied()
        self._counting, self._listing = Lock(), Lock()
        self._deep_source, self._deep_target = (s if isinstance(s, Deep) else None for s in (source, target))
        self._is_far = any(store.facts().spent is not None for store in (source, target))
        """Each request takes its time on the way."""

    def run(self, *, whole: bool = True) -> Copied:
        """Copy what is new.

        Args:
            whole: look through all rounds, and read back all of each log; else through those that are still open.

        Raises:
            StoreError: one of the places fails, or has other bytes than were written; doing it again goes on.
        """
        done = self._pass = Copied()
        before = self._logs.appended
        self._look_through(whole=whole)
        while self._logs.more:
            self._look_through(whole=whole)
        self._read_back()
        done.records = self._logs.appended - before
        return done

    def _look_through(self, *, whole: bool) -> None:
        peers = [key for key, _ in self._listed(keys.PEERS)]
        again = {keys.EXAM: LARGEST_EXAM, keys.STATE: SMALL_FILE, keys.CLEANED: SMALL_FILE}
        held = self._read(again | dict.fromkeys(peers[:MOST_HELD], LARGEST_REGISTRATION))
        logs = [key for key, _ in self._listed(keys.LOGS)]
        nodes = self._take_in_rows(logs)
        is_open = None if whole else self._open_rounds()
        listed = {prefix: list(self._listed(prefix, is_open)) for prefix in reversed((*_BEFORE_ROWS, *_BEHIND_ROWS))}
        tasks = list(self._listed(keys.TASKS))
        self._put_all(self._read(dict.fromkeys(_ONCE, LARGEST_FILE)))
        self._copy_all(tasks)
        for key in logs:
            if key != keys.metrics(_node_of_log(key)):
                with self._leaving_out(key):
                    self._logs.copy(key, whole=whole)
        found = ((key, entry) for files in listed.values() for key, entry in files if key not in self._saved)
        new = [(key, entry) for key, entry in found if self._versions.get(key) != entry.tag]
        self._to_do = ToDo(len(new), sum(entry.size for _, entry in new))
        for rounds in _at_a_time(new):
            for prefix in _BEFORE_ROWS:
                self._copy_all(rounds[prefix])
            self._copy_behind([_behind(key, entry) for prefix in _BEHIND_ROWS for key, entry in rounds[prefix]])
        for node in nodes:
            with self._leaving_out(keys.metrics(node)):
                self._logs.finish(keys.metrics(node), whole=whole)
        if self._archives:
            self._copy_archive(*self._archives)
        for key in peers[MOST_HELD:]:
            self._put_all(self._read({key: LARGEST_REGISTRATION}))
        self._put_all(dict(reversed(held.items())))

    def _open_rounds(self) -> _IsOpen:
        """Returns which rounds are open: those from STILL_OPEN before the run on, and around what nodes that are
        further behind have just done."""
        oldest = self._reached() - STILL_OPEN
        near = [range(place - STILL_OPEN, place + rows + STILL_OPEN) for place, rows in self._logs.growing()]
        return lambda round_: round_ >= oldest or any(round_ in rounds for rounds in near)

    def _reached(self) -> int:
        """Returns the round that the run is at: what the clock says and a row bears out; without a clock, half of the
        nodes.

        No one else's word counts: names of rounds to come cost nothing, and would leave out all that is now written.
        """
        rounds, clock = self._logs.furthest(), read_clock(Run("", self._source)).state
        if clock is None or not rounds:
            return median_low(rounds or [0])
        return min(clock.round, max(rounds))

    def _take_in_rows(self, logs: Sequence[str]) -> list[str]:
        self._logs.begin()
        nodes = [node for key in logs if key == keys.metrics(node := _node_of_log(key))]
        for node in nodes:
            with self._leaving_out(keys.metrics(node)):
                self._logs.take_in(node)
        return nodes

    # ── listing ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def _listed(self, prefix: str, is_open: _IsOpen | None = None, depth: int = 0) -> Iterator[tuple[str, Entry]]:
        """Yields the keys below a prefix; a checkpoint is one. Raises StoreError where the whole of it cannot be
        listed.

        `is_open`: rounds that are looked through; None: all.
        """
        if depth == 0 and prefix in _BY_ROUND and self._deep_source:
            for key, entry in self._deep_source.files_below(prefix):
                if keys.owner_of(key) is None:
                    self._pass.strays += 1
                elif is_open is None or is_open(_round_of(key)):
                    yield key, entry
            return
        try:
            found = list(entries(self._source, prefix, tags=True))
        except StoreError as error:
            if depth == 0:
                raise
            self._leave_out(prefix, error)
            return
        for entry in found:
            key, round_ = f"{prefix}/{entry.name}", keys.round_of(entry.name) if depth == 0 else None
            if is_open and round_ is not None and not is_open(round_):
                continue
            if entry.kind is Kind.PREFIX and not _is_checkpoint(key) and depth < _DEEPEST:
                yield from self._listed(key, is_open, depth + 1)
            elif entry.kind is Kind.OTHER or (not _is_checkpoint(key) and keys.owner_of(key) is None):
                self._pass.strays += 1
            else:
                yield key, entry

    def _read(self, limits: Mapping[str, int]) -> dict[str, bytes]:
        """Returns those of some files that are there and can be taken. `limits`: bytes of each."""
        found = {}
        for key, limit in limits.items():
            with self._leaving_out(key):
                found[key] = self._source.get(key, limit).data
        return found

    # ── copying ─────────────────────────────────────────────────────────────────────────────────────────────────────
    @contextmanager
    def _leaving_out(self, key: str) -> Iterator[None]:
        """Leaves a file out where it is gone or cannot be taken."""
        try:
            yield
        except FileNotFoundError:
            pass  # it is gone by now
        except ProtocolError as error:
            self._leave_out(key, error)
        except StoreError as error:
            if not error.blocked:
                raise
            self._leave_out(key, error)

    def _copy_behind(self, files: Sequence[_Behind]) -> None:
        """Copies what nodes write after rows of some rounds, with these rows; what a row is not there of yet waits for
        the next pass.

        A node's last reward comes when all others and their votes are there: so it says whether any is lacking.
        """
        there = list[_Behind]()
        for node, place in {one.node: one.place for one in sorted(files)}.items():
            with self._leaving_out(keys.metrics(node)):
                self._logs.write_to(node, place)
        for one in files:
            with self._leaving_out(one.key):
                if not self._logs.is_late(one.node, one.place):
                    there.append(one)
        rewarded = {one.node: one.place for one in sorted(there) if one.order == 0}

        def step(one: _Behind) -> tuple[bool, int]:
            return one.place >= rewarded.get(one.node, (0, 0)), one.order

        for _, some in groupby(sorted(there, key=step), key=step):
            self._copy_all([(one.key, one.entry) for one in some])

    def _copy_all(self, files: Sequence[tuple[str, Entry]]) -> None:
        self._map(self._copy, files)

    def _map(self, call: Callable[[str, T], None], over: Sequence[tuple[str, T]]) -> None:
        """Calls for each; several at a time where each is a request."""
        if len(over) < 2 or not self._is_far:
            for each in over:
                call(*each)
            return
        with ThreadPoolExecutor(min(_AT_ONCE, len(over))) as threads:
            for _ in threads.map(call, *zip(*over, strict=True)):
                pass  # the first that fails is raised, and those that have not begun are not copied

    def _copy(self, key: str, entry: Entry) -> None:
        with self._leaving_out(key):
            if entry.kind is Kind.PREFIX:
                self._copy_checkpoint(key)
            else:
                self._copy_file(key)

    def _copy_file(self, key: str) -> None:
        small = key.startswith((f"{keys.REWARDS}/", f"{keys.WINNERS}/"))
        blob = self._source.get(key, SMALL_FILE if small else LARGEST_FILE)
        self._put(key, blob.data, durable=False)
        self._versions[key] = blob.tag

    def _put_all(self, files: Mapping[str, bytes]) -> None:
        """Puts small files; all but registrations, which a node writes again at its next start, are synced."""
        for key, data in files.items():
            self._put(key, data, durable=not key.startswith(f"{keys.PEERS}/"))
            self._versions.setdefault(key, "")

    def _put(self, key: str, data: bytes, *, durable: bool) -> None:
        there, is_ours = self._tag_there(key), key in self._versions
        known = there is not None or is_ours
        if known and ((there == _md5(data) and not is_ours) or self._in_target(key) == data):
            self._count(same=1, same_bytes=len(data))
            return
        self._target.put(key, data, durable=durable)
        if self._target.facts().spent is not None:
            self._unread[key] = _md5(data)
        elif self._in_target(key) != data:
            raise changed(self._target, key)
        self._count(files=1, bytes=len(data))

    def _tag_there(self, key: str) -> str | None:
        """Returns the tag that a file of the target had when its prefix was first written to; None: none was there."""
        prefix, _, name = key.rpartition("/")
        root = key.partition("/round_")[0]
        if root in _BY_ROUND and self._deep_target:
            with self._listing:
                if root not in self._listed_whole:
                    for file, entry in self._deep_target.files_below(root):
                        within, _, last = file.rpartition("/")
                        self._there.setdefault(within, {})[last] = entry.tag
                    self._listed_whole.add(root)
            return self._there.get(prefix, {}).get(name)
        if prefix not in self._there:
            self._there[prefix] = {entry.name: entry.tag for entry in entries(self._target, prefix)}
        return self._there[prefix].get(name)

    def _read_back(self) -> None:
        """Holds what a place that is far has acknowledged in this pass against its own digests, or reads it.

        Raises:
            StoreError: it has other bytes.
        """
        unread, self._unread = self._unread, {}
        tags = dict[str, str]()
        if self._deep_target and len(unread) > _FEW:
            for root in {_prefix_of(key) for key in unread} & _BY_ROUND:
                tags |= {key: entry.tag for key, entry in self._deep_target.files_below(root)}
        self._map(self._read_one_back, [(key, md5) for key, md5 in unread.items() if tags.get(key) != md5])

    def _read_one_back(self, key: str, md5: str) -> None:
        if (data := self._in_target(key)) is None or _md5(data) != md5:
            raise changed(self._target, key)

    def _count(self, **more: int) -> None:
        with self._counting:
            for name, number in more.items():
                setattr(self._pass, name, getattr(self._pass, name) + number)
            self._tell(self._pass, self._to_do)

    def _in_target(self, key: str) -> bytes | None:
        try:
            return self._target.get(key, LARGEST_FILE).data
        except (FileNotFoundError, ProtocolError):
            return None

    def _copy_archive(self, source: Store, target: Store) -> None:
        """Copies the archive; its files are named by what they hold, so what is there under a name need not be looked
        at again."""
        there = {entry.name for entry in entries(target, keys.ROLLOUTS)}
        for entry in entries(source, keys.ROLLOUTS):
            key = f"{keys.ROLLOUTS}/{entry.name}"
            if entry.name in there or keys.archived_round(entry.name) is None or entry.kind is not Kind.FILE:
                continue
            with self._leaving_out(key):
                data = source.get(key, LARGEST_PART).data
                target.put(key, data)
                if target.get(key, LARGEST_PART).data != data:
                    raise changed(target, key)
                self._count(files=1, bytes=len(data))

    # ── checkpoints ─────────────────────────────────────────────────────────────────────────────────────────────────
    def _copy_checkpoint(self, prefix: str) -> None:
        if prefix in self._saved:
            return
        if (there := _shape(self._target, prefix)) and there == _shape(self._source, prefix):
            self._count(same=1)
        else:
            with self._source.open_bundle(prefix) as bundle:
                self._target.put_bundle(prefix, partial(copy_opened, bundle))
                with self._target.open_bundle(prefix) as copy:
                    if not _are_same(bundle, copy):
                        raise changed(self._target, prefix)
                self._count(bytes=sum(file.stat().st_size for file in bundle.rglob("*") if file.is_file()))
            self._count(checkpoints=1)
        self._saved.add(prefix)

    def _leave_out(self, key: str, why: Exception) -> None:
        with self._counting:
            if len(self._pass.left_out) < MOST_NAMED:
                self._pass.left_out.append(f"{key}: {why}")
            else:
                self._pass.strays += 1


def _at_a_time(files: Iterable[tuple[str, Entry]]) -> Iterator[Mapping[str, list[tuple[str, Entry]]]]:
    """Yields files by prefix, COPIED_TOGETHER rounds or fewer at a time: those of a checkpoint are the last ones."""
    by_round = defaultdict[int, list[tuple[str, Entry]]](list)
    for key, entry in files:
        by_round[_round_of(key)].append((key, entry))
    found, rounds = defaultdict[str, list[tuple[str, Entry]]](list), 0
    for round_ in sorted(by_round):
        rounds += 1
        for key, entry in by_round[round_]:
            found[_prefix_of(key)].append((key, entry))
        if rounds == COPIED_TOGETHER or found[keys.CHECKPOINTS]:
            yield found
            found, rounds = defaultdict(list), 0
    yield found


def _prefix_of(key: str) -> str:
    return key.partition("/round_")[0]


def _round_of(key: str) -> int:
    """Returns the round of a file; of a checkpoint the last one that it holds."""
    prefix = _prefix_of(key)
    round_ = keys.round_of(key.removeprefix(f"{prefix}/").partition("/")[0])
    return (round_ or 0) - (prefix == keys.CHECKPOINTS)


def _md5(data: bytes) -> str:
    """Returns what most buckets give as the tag of an object that was put whole."""
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _is_checkpoint(key: str) -> bool:
    parts = key.split("/")
    return len(parts) == 3 and parts[0] == keys.CHECKPOINTS and keys.owner_of(f"{key}/state.json") is not None


def _behind(key: str, entry: Entry) -> _Behind:
    """Finds the row behind which a file is written: of a vote or a checkpoint that of its round's last stage."""
    prefix, _, *rest = key.split("/")
    stage = keys.stage_of(rest[0]) or 0 if prefix == keys.REWARDS else math.inf
    node = keys.owner_of(f"{key}/state.json" if prefix == keys.CHECKPOINTS else key) or ""
    return _Behind((_round_of(key), stage), _BEHIND_ROWS.index(prefix), node, key, entry)


def _node_of_log(key: str) -> str:
    return key.split("/")[1]


def _shape(store: Store, prefix: str) -> dict[str, int]:
    """File of a checkpoint -> its size; those below its own folders included."""
    found: dict[str, int] = {}
    for entry in entries(store, prefix, tags=True):
        if entry.kind is Kind.PREFIX:
            found |= {f"{entry.name}/{name}": size for name, size in _shape(store, f"{prefix}/{entry.name}").items()}
        else:
            found[entry.name] = entry.size
    return found


def _are_same(one: Path, other: Path) -> bool:
    names = [{str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()} for root in (one, other)]
    return names[0] == names[1] and not any(filecmp.cmpfiles(one, other, names[0], shallow=False)[1:])
