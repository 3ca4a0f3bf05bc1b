"""Copies an experiment from one store into another, key by key: a folder into a bucket, a bucket into a folder.

    names are listed, what nodes write last first ─▶ files are copied, what nodes write first first ─▶ read back

Of one round a node writes rollouts, row, reward, vote, checkpoint, in this order. What is listed earlier is copied
later, so the target is at every moment a state in which a kill could have left the source, wherever the copying breaks
off. Done again, it goes on: what is there already is compared, and left as it is where it is the same.

Only what a node, coordinator, judge or examiner writes is copied (`keys.owner_of`), byte by byte, so that signatures
stay. What goes from the source stays in the target.
"""

from __future__ import annotations

import filecmp
import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from swarm.errors import ProtocolError, StoreError
from swarm.records.archives import LARGEST_PART
from swarm.records.files import LARGEST_EXAM, LARGEST_REGISTRATION, SMALL_FILE
from swarm.records.listing import entries
from swarm.store.base import Entry, Kind, Store
from swarm.wire import keys

LARGEST_FILE = 64 * 2**20
"""Bytes; nodes take no larger ones."""
STILL_OPEN = 32
"""Rounds up to so many behind the furthest are looked through in every pass, earlier ones in a whole one alone."""
MOST_HELD = 1000
"""Registrations that are read before all else and written last; more are copied as they are then."""
MOST_RESTARTS = 3
"""Times that one log may become another file while it is copied."""
MOST_NAMED = 20
"""Keys that are named as left out."""
_ONCE = (keys.EXPERIMENT, keys.STUDY_RUN, keys.IMPORT)
_BY_ROUND = (
    keys.JUDGE_QUESTIONS,
    keys.COMPLETIONS,
    keys.ROLLOUTS,
    keys.JUDGE_ANSWERS,
    keys.LOGS,
    keys.REWARDS,
    keys.WINNERS,
    keys.CHECKPOINTS,
)
"""In the order in which nodes write them; logs of all rounds are one file."""
_DEEPEST = 3
"""Prefixes below one of these."""


@dataclass
class Copied:
    """What one pass has done."""

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


class _Held(NamedTuple):
    """A file as it was read."""

    key: str
    data: bytes


@dataclass
class _Log:
    """How far a growing file was copied."""

    cursor: str = ""
    """Of the source."""
    records: int = 0
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)

    def add(self, records: list[bytes]) -> None:
        self.records += len(records)
        for record in records:
            self.digest.update(record + b"\n")


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
        self._logs: dict[str, _Log] = {}
        self._saved: set[str] = set()
        """Prefixes of checkpoints that the target has."""
        self._furthest = 0
        self._pass = Copied()

    def run(self, *, whole: bool = True) -> Copied:
        """Copy what is new.

        Args:
            whole: look through all rounds, and read back all of each log; else through those that are still open.

        Raises:
            StoreError: one of the places fails, or has other bytes than were written; doing it again goes on.
        """
        done = self._pass = Copied()
        oldest = 0 if whole else self._furthest - STILL_OPEN
        peers = [key for key, _ in self._listed(keys.PEERS, 0)]
        first = [
            (keys.EXAM, LARGEST_EXAM),
            (keys.STATE, SMALL_FILE),
            (keys.CLEANED, SMALL_FILE),
            *((key, LARGEST_REGISTRATION) for key in peers),
        ]
        held = [each for key, limit in first[: 3 + MOST_HELD] for each in self._hold(key, limit)]  # written again
        listed = {prefix: list(self._listed(prefix, oldest)) for prefix in reversed(_BY_ROUND)}
        for key in _ONCE:
            self._put_all(self._hold(key, LARGEST_FILE))
        for prefix in _BY_ROUND:
            for key, entry in listed[prefix]:
                self._copy(key, entry, whole=whole)
        if self._archives:
            self._copy_archive(*self._archives)
        for key in peers[MOST_HELD:]:
            self._put_all(self._hold(key, LARGEST_REGISTRATION))
        self._put_all(reversed(held))
        return done

    # ── listing ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def _listed(self, prefix: str, oldest: int, depth: int = 0) -> Iterator[tuple[str, Entry]]:
        """The keys below a prefix; a checkpoint is one. Raises StoreError where the whole of it cannot be listed."""
        try:
            found = list(entries(self._source, prefix, tags=True))
        except StoreError as error:
            if depth == 0:
                raise
            self._leave_out(prefix, error)
            return
        for entry in found:
            key, round_ = f"{prefix}/{entry.name}", keys.round_of(entry.name)
            if round_ is not None:
                self._furthest = max(self._furthest, round_)
            if round_ is not None and round_ < oldest:
                continue
            if entry.kind is Kind.PREFIX and not _is_checkpoint(key) and depth < _DEEPEST:
                yield from self._listed(key, oldest, depth + 1)
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
    def _copy(self, key: str, entry: Entry, *, whole: bool) -> None:
        try:
            if entry.kind is Kind.PREFIX:
                self._copy_checkpoint(key)
            elif key.startswith(f"{keys.LOGS}/"):
                self._copy_log(key, whole=whole)
            elif self._versions.get(key) != entry.tag:
                self._copy_file(key)
        except FileNotFoundError:
            pass  # it is gone by now
        except ProtocolError as error:
            self._leave_out(key, error)
        except StoreError as error:
            if not error.blocked:
                raise
            self._leave_out(key, error)

    def _copy_file(self, key: str) -> None:
        small = key.startswith((f"{keys.REWARDS}/", f"{keys.WINNERS}/"))
        blob = self._source.get(key, SMALL_FILE if small else LARGEST_FILE)
        self._put(_Held(key, blob.data), durable=False)
        self._versions[key] = blob.tag

    def _put_all(self, held: Iterator[_Held]) -> None:
        for each in held:
            self._put(each, durable=True)

    def _put(self, held: _Held, *, durable: bool) -> None:
        prefix, _, name = held.key.rpartition("/")
        if prefix not in self._there:
            self._there[prefix] = frozenset(entry.name for entry in entries(self._target, prefix))
        known = name in self._there[prefix] or held.key in self._versions or durable
        if known and self._in_target(held.key) == held.data:
            self._pass.same += 1
            return
        self._target.put(held.key, held.data, durable=durable)
        if self._in_target(held.key) != held.data:
            raise _changed(self._target, held.key)
        self._pass.files += 1
        self._pass.bytes += len(held.data)

    def _in_target(self, key: str) -> bytes | None:
        try:
            return self._target.get(key, LARGEST_FILE).data
        except (FileNotFoundError, ProtocolError):
            return None

    def _copy_archive(self, source: Store, target: Store) -> None:
        """Its files are named by what they hold, so what is there under a name need not be looked at again."""
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
                raise _changed(target, key)
            self._pass.files += 1
            self._pass.bytes += len(data)

    # ── logs ────────────────────────────────────────────────────────────────────────────────────────────────────────
    def _copy_log(self, key: str, *, whole: bool) -> None:
        log = self._logs.get(key)
        if log is None:
            log = self._logs[key] = self._taken_up(key)
        more, before, restarts = True, log.records, 0
        while more:
            found = self._source.read_records(key, log.cursor)
            if found.restarted:  # it became another file: these are from its beginning
                self._target.remove(key)
                log = self._logs[key] = _Log()
                before, restarts = -1, restarts + 1
            if restarts > MOST_RESTARTS:
                raise ProtocolError("unreadable", f"{self._source.describe(key)} is replaced again and again")
            if found.records:
                self._target.append_records(key, found.records, durable=True)
            log.add(found.records)
            log.cursor, more = found.cursor, found.more
            self._pass.records += len(found.records)
        if whole and log.records != before and _read_whole(self._target, key).digest.digest() != log.digest.digest():
            del self._logs[key]
            raise _changed(self._target, key)

    def _taken_up(self, key: str) -> _Log:
        """As far as the target's records are the source's first ones; it begins anew where they are not."""
        there, log = _read_whole(self._target, key), _Log()
        while log.records < there.records:
            found = self._source.read_records(key, log.cursor)
            if log.records + len(found.records) > there.records or not found.records:
                break
            log.add(found.records)
            log.cursor = found.cursor
        return self._completed(key, log, there) if there.records else log

    def _completed(self, key: str, log: _Log, there: _Log) -> _Log:
        """Reading ended before the target's last record: the rest of that part is appended."""
        found = self._source.read_records(key, log.cursor)
        missing = there.records - log.records
        log.add(found.records[:missing])
        if (log.records, log.digest.digest()) != (there.records, there.digest.digest()):
            self._target.remove(key)
            return _Log()
        if rest := found.records[missing:]:
            self._target.append_records(key, rest, durable=True)
            log.add(rest)
            self._pass.records += len(rest)
        log.cursor = found.cursor
        return log

    # ── checkpoints ─────────────────────────────────────────────────────────────────────────────────────────────────
    def _copy_checkpoint(self, prefix: str) -> None:
        if prefix in self._saved:
            return
        if (there := _shape(self._target, prefix)) and there == _shape(self._source, prefix):
            self._pass.same += 1
        else:
            with self._source.open_bundle(prefix) as bundle:
                self._target.put_bundle(prefix, lambda into: _fill(bundle, into))
                with self._target.open_bundle(prefix) as copy:
                    if not _are_same(bundle, copy):
                        raise _changed(self._target, prefix)
                self._pass.bytes += sum(file.stat().st_size for file in bundle.rglob("*") if file.is_file())
            self._pass.checkpoints += 1
        self._saved.add(prefix)

    def _leave_out(self, key: str, why: Exception) -> None:
        if len(self._pass.left_out) < MOST_NAMED:
            self._pass.left_out.append(f"{key}: {why}")
        else:
            self._pass.strays += 1


def _is_checkpoint(key: str) -> bool:
    parts = key.split("/")
    return len(parts) == 3 and parts[0] == keys.CHECKPOINTS and keys.owner_of(f"{key}/state.json") is not None


def _read_whole(store: Store, key: str) -> _Log:
    log, more = _Log(), True
    while more:
        found = store.read_records(key, log.cursor)
        log.add(found.records)
        log.cursor, more = found.cursor, found.more
    return log


def _shape(store: Store, prefix: str) -> dict[str, int]:
    """File of a checkpoint -> its size; those below its own folders included."""
    found: dict[str, int] = {}
    for entry in entries(store, prefix, tags=True):
        if entry.kind is Kind.PREFIX:
            found |= {f"{entry.name}/{name}": size for name, size in _shape(store, f"{prefix}/{entry.name}").items()}
        else:
            found[entry.name] = entry.size
    return found


def _fill(bundle: Path, into: Path) -> None:
    shutil.copytree(bundle, into, dirs_exist_ok=True)


def _are_same(one: Path, other: Path) -> bool:
    names = [{str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()} for root in (one, other)]
    return names[0] == names[1] and not any(filecmp.cmpfiles(one, other, names[0], shallow=False)[1:])


def _changed(store: Store, key: str) -> StoreError:
    return StoreError(f"{store.describe(key)} has other bytes than were written: does somebody else write there?")
