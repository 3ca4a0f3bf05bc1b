"""Copies an experiment from one store into another, key by key: a folder into a bucket, a bucket into a folder.

    rows are taken in ─▶ names are listed, what nodes write last first ─▶ files are copied, what nodes write first first
                                                                           └ round by round from the rows on

Of one round a node writes completions, rollouts, row, reward, vote, checkpoint, in this order. The rows say how far a
pass goes: what a node writes before a row is listed after it was read, and what it writes after a later one is left for
the next pass. So the target is at every moment a state in which a kill could have left each node of the source,
wherever the copying breaks off; rollouts may be further, and logs other than rows. Done again, it goes on: what is
there already is compared, and left as it is where it is the same.

Only what a node, coordinator, judge or examiner writes is copied (`keys.owner_of`), byte by byte, so that signatures
stay. What goes from the source stays in the target.
"""

from __future__ import annotations

import filecmp
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import median_low
from threading import Lock
from typing import NamedTuple

from swarm.errors import ProtocolError, StoreError
from swarm.records.archives import LARGEST_PART
from swarm.records.copying_rows import LogCopier, Place, changed
from swarm.records.files import LARGEST_EXAM, LARGEST_REGISTRATION, SMALL_FILE, read_clock
from swarm.records.listing import entries
from swarm.store.base import Entry, Kind, Store
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
_ONCE = (keys.EXPERIMENT, keys.STUDY_RUN, keys.IMPORT)
_BEFORE_ROWS = (keys.JUDGE_QUESTIONS, keys.COMPLETIONS, keys.ROLLOUTS, keys.WEIGHTS, keys.JUDGE_ANSWERS)
"""In the order in which nodes write them, as those below."""
_BEHIND_ROWS = (keys.REWARDS, keys.WINNERS, keys.CHECKPOINTS)
_AT_ONCE = 8
"""Files that are copied at the same time."""
_DEEPEST = 3
"""Prefixes below one of these."""
_IsOpen = Callable[[int], bool]


def _all(round_: int) -> bool:
    return True


@dataclass
class Copied:
    """Counts what one pass of copying has done."""

    files: int = 0
    same: int = 0
    """Files and checkpoints that were there already."""
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


class _Row(NamedTuple):
    """The row behind which a file is written; in the order of copying."""

    place: Place
    order: int
    node: str


class _Held(NamedTuple):
    """A file as it was read."""

    key: str
    data: bytes


class Copier:
    """Copies from one store into another, over any number of passes."""

    def __init__(
        self, source: Store, target: Store, from_archive: Store | None = None, to_archive: Store | None = None
    ) -> None:
        """Args:
        source: only read.
        target: opened to write, for nobody else.
        from_archive: what was cleaned away of the source; copied after it, since files go from there to here.
        """
        self._source = source
        self._target = target
        self._archives = (from_archive, to_archive) if from_archive and to_archive else None
        self._versions: dict[str, str] = {}
        """Key -> version of the source's file that the target has."""
        self._there: dict[str, frozenset[str]] = {}
        """Prefix of the target -> names in it when it was first written to."""
        self._logs = LogCopier(source, target)
        self._saved: set[str] = set()
        """Prefixes of checkpoints that the target has."""
        self._pass = Copied()
        self._counting = Lock()
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
        done.records = self._logs.appended - before
        return done

    def _look_through(self, *, whole: bool) -> None:
        peers = [key for key, _ in self._listed(keys.PEERS)]
        first = [
            (keys.EXAM, LARGEST_EXAM),
            (keys.STATE, SMALL_FILE),
            (keys.CLEANED, SMALL_FILE),
            *((key, LARGEST_REGISTRATION) for key in peers),
        ]
        held = [each for key, limit in first[: 3 + MOST_HELD] for each in self._hold(key, limit)]  # written again
        logs = [key for key, _ in self._listed(keys.LOGS)]
        nodes = self._take_in_rows(logs)
        is_open = _all if whole else self._open_rounds()
        listed = {prefix: list(self._listed(prefix, is_open)) for prefix in reversed((*_BEFORE_ROWS, *_BEHIND_ROWS))}
        tasks = list(self._listed(keys.TASKS))
        for key in _ONCE:
            self._put_all(self._hold(key, LARGEST_FILE))
        for files in (tasks, *(listed[prefix] for prefix in _BEFORE_ROWS)):
            self._copy_all(files)
        for key in logs:
            if key != keys.metrics(_node_of_log(key)):
                with self._leaving_out(key):
                    self._logs.copy(key, whole=whole)
        behind = sorted((_row_of(key), key, entry) for prefix in _BEHIND_ROWS for key, entry in listed[prefix])
        for _, files_of_row in groupby(behind, key=lambda each: each[0][:2]):
            self._copy_all([*self._whose_row_is_there(files_of_row)])
        for node in nodes:
            with self._leaving_out(keys.metrics(node)):
                self._logs.finish_rows(node, whole=whole)
        if self._archives:
            self._copy_archive(*self._archives)
        for key in peers[MOST_HELD:]:
            self._put_all(self._hold(key, LARGEST_REGISTRATION))
        self._put_all(reversed(held))

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
        """Read the rows of all nodes, and name these."""
        self._logs.begin()
        nodes = [node for key in logs if key == keys.metrics(node := _node_of_log(key))]
        for node in nodes:
            with self._leaving_out(keys.metrics(node)):
                self._logs.take_in(node)
        return nodes

    # ── listing ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def _listed(self, prefix: str, is_open: _IsOpen = _all, depth: int = 0) -> Iterator[tuple[str, Entry]]:
        """Yields the keys below a prefix; a checkpoint is one. Raises StoreError where the whole of it cannot be
        listed.

        `is_open`: rounds that are looked through.
        """
        try:
            found = list(entries(self._source, prefix, tags=True))
        except StoreError as error:
            if depth == 0:
                raise
            self._leave_out(prefix, error)
            return
        for entry in found:
            key, round_ = f"{prefix}/{entry.name}", keys.round_of(entry.name) if depth == 0 else None
            if round_ is not None and not is_open(round_):
                continue
            if entry.kind is Kind.PREFIX and not _is_checkpoint(key) and depth < _DEEPEST:
                yield from self._listed(key, is_open, depth + 1)
            elif entry.kind is Kind.OTHER or (not _is_checkpoint(key) and keys.owner_of(key) is None):
                self._pass.strays += 1
            else:
                yield key, entry

    def _hold(self, key: str, limit: int) -> Iterator[_Held]:
        try:
            yield _Held(key, self._source.get(key, limit).data)
        except FileNotFoundError:
            pass
        except ProtocolError as error:
            self._leave_out(key, error)

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

    def _whose_row_is_there(self, files: Iterable[tuple[_Row, str, Entry]]) -> Iterator[tuple[str, Entry]]:
        """Yields files that nodes write after a row, once that row is in the target; others wait for the next pass."""
        for row, key, entry in files:
            if self._versions.get(key) != entry.tag and key not in self._saved:
                with self._leaving_out(key):
                    self._logs.write_to(row.node, row.place)
                    if not self._logs.is_late(row.node, row.place):
                        yield key, entry

    def _copy_all(self, files: Sequence[tuple[str, Entry]]) -> None:
        """Copies files whose order among each other does not matter; several at a time where each is a request."""
        if len(files) < 2 or not self._is_far:
            for each in files:
                self._copy(*each)
            return
        with ThreadPoolExecutor(min(_AT_ONCE, len(files))) as threads:
            for _ in threads.map(self._copy, *zip(*files, strict=True)):
                pass  # the first that fails is raised, and those that have not begun are not copied

    def _copy(self, key: str, entry: Entry) -> None:
        with self._leaving_out(key):
            if entry.kind is Kind.PREFIX:
                self._copy_checkpoint(key)
            elif self._versions.get(key) != entry.tag:
                self._copy_file(key)

    def _copy_file(self, key: str) -> None:
        small = key.startswith((f"{keys.REWARDS}/", f"{keys.WINNERS}/"))
        blob = self._source.get(key, SMALL_FILE if small else LARGEST_FILE)
        self._put(_Held(key, blob.data), durable=False)
        self._versions[key] = blob.tag

    def _put_all(self, held: Iterator[_Held]) -> None:
        """Puts small files; all but registrations, which a node writes again at its next start, are synced."""
        for each in held:
            self._put(each, durable=not each.key.startswith(f"{keys.PEERS}/"))
            self._versions.setdefault(each.key, "")

    def _put(self, held: _Held, *, durable: bool) -> None:
        prefix, _, name = held.key.rpartition("/")
        if prefix not in self._there:
            self._there[prefix] = frozenset(entry.name for entry in entries(self._target, prefix))
        known = name in self._there[prefix] or held.key in self._versions
        if known and self._in_target(held.key) == held.data:
            self._count(same=1)
            return
        self._target.put(held.key, held.data, durable=durable)
        if self._in_target(held.key) != held.data:
            raise changed(self._target, held.key)
        self._count(files=1, bytes=len(held.data))

    def _count(self, **more: int) -> None:
        with self._counting:
            for name, number in more.items():
                setattr(self._pass, name, getattr(self._pass, name) + number)

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
            try:
                data = source.get(key, LARGEST_PART).data
            except FileNotFoundError:
                continue
            except ProtocolError as error:
                self._leave_out(key, error)
                continue
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


def _is_checkpoint(key: str) -> bool:
    parts = key.split("/")
    return len(parts) == 3 and parts[0] == keys.CHECKPOINTS and keys.owner_of(f"{key}/state.json") is not None


def _row_of(key: str) -> _Row:
    """Returns the row that comes before a reward, vote or checkpoint; of the last two, the row of their round's last
    stage."""
    prefix, folder, *rest = key.split("/")
    round_ = (keys.round_of(folder) or 0) - (prefix == keys.CHECKPOINTS)
    stage = keys.stage_of(rest[0]) or 0 if prefix == keys.REWARDS else math.inf
    node = keys.owner_of(f"{key}/state.json" if prefix == keys.CHECKPOINTS else key) or ""
    return _Row((round_, stage), _BEHIND_ROWS.index(prefix), node)


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
