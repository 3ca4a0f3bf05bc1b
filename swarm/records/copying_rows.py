"""Copies growing files, records as they are; rows no further than what was there before the files of their rounds.

take_in    rows up to the log's end are read, and held
write_to   those up to a round and stage are appended to the target, before its reward is copied
is_late    whether a row was written after that end: its reward is for the next pass
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from swarm.errors import ProtocolError, StoreError
from swarm.records.growing import parse_line
from swarm.store.base import Records, Store
from swarm.wire import keys
from swarm.wire.messages import Count

MOST_HELD = 64 * 2**20
"""Bytes of rows that one pass holds, and one reading more; the next one goes on there."""
HELD_BESIDE = 256
"""Bytes that a row takes beside its own while it is held: a stranger's blank lines are none without it."""
MOST_RESTARTS = 3
"""Times that one log may become another file within a pass."""


Place = tuple[int, float]
"""Round and stage of a row; a stage of infinity stands for a round's last one."""
NOWHERE: Place = (-1, -1)
"""Place of anything but a row."""


class _OfRound(msgspec.Struct):
    round: Count
    stage: Count = 0


@dataclass
class _Log:
    """Keeps how far a growing file was copied."""

    cursor: str = ""
    """Cursor of the source, behind what is held."""
    held: list[bytes] = field(default_factory=list)
    """Records that were read, and are not in the target yet."""
    places: list[Place] = field(default_factory=list)
    """The place of each held row; empty for a log of anything else."""
    records: int = 0
    """In the target, as all that follows."""
    place: Place = NOWHERE
    """The furthest of a row."""
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)
    checked: int = 0
    """Records when they were last read back."""
    restarts: int = 0

    def hold(self, records: list[bytes], *, are_rows: bool) -> None:
        self.held += records
        if are_rows:
            self.places += map(_place_of, records)

    def let_go(self, count: int) -> None:
        """Take note that the target has the first of those held."""
        self.add(self.held[:count])
        self.place = max([self.place, *self.places[:count]])
        del self.held[:count], self.places[:count]

    def add(self, records: list[bytes]) -> None:
        self.records += len(records)
        self.digest.update(b"\n".join([*records, b""]))


class LogCopier:
    """All logs of a run, over any number of passes."""

    def __init__(self, source: Store, target: Store) -> None:
        self._source = source
        self._target = target
        self._logs: dict[str, _Log] = {}
        self._left = MOST_HELD
        self.appended = 0
        """Records, ever."""
        self.more = False
        """Rows are left for another pass, which are not held."""

    def begin(self) -> None:
        """A pass begins."""
        self._left, self.more = MOST_HELD, False
        for log in self._logs.values():
            log.restarts = 0

    def furthest(self) -> list[int]:
        """Returns the last round of each node that has rows in the target."""
        return [log.place[0] for log in self._of_rows() if log.place > NOWHERE]

    def growing(self) -> list[tuple[int, int]]:
        """Returns for each node whose rows are held its last round in the target (-1: none) and the number of rows."""
        return [(log.place[0], len(log.held)) for log in self._of_rows() if log.held]

    def _of_rows(self) -> Iterator[_Log]:
        return (log for key, log in self._logs.items() if _has_rows(key))

    def take_in(self, node: str) -> None:
        """Read a node's rows up to their end."""
        more = True
        while more and self._left > 0:
            found = self._read(keys.metrics(node))
            more = found.more
            self._left -= sum(map(len, found.records)) + HELD_BESIDE * len(found.records)
        self.more |= more

    def write_to(self, node: str, place: Place) -> None:
        """Append a node's held rows up to the last one that is of no later round and stage than this."""
        if log := self._logs.get(keys.metrics(node)):
            upto = [count for count, held in enumerate(log.places, 1) if NOWHERE < held <= place]
            self._append(keys.metrics(node), upto[-1] if upto else 0)

    def is_late(self, node: str, place: Place) -> bool:
        """Tells whether a row of this round and no later stage is not in the target, and in the source."""
        log = self._logs.get(keys.metrics(node), _Log())
        if place <= log.place:
            return False
        try:
            found = self._source.read_records(keys.metrics(node), log.cursor)
        except ProtocolError:
            return False
        return found.more or any((place[0], 0) <= _place_of(record) <= place for record in found.records)

    def copy(self, key: str, *, whole: bool) -> None:
        """Any other log, to its end."""
        more = True
        while more:
            more = self._read(key).more
            self._append(key)
        self.finish(key, whole=whole)

    def finish(self, key: str, *, whole: bool) -> None:
        """Append what is held still. Raises StoreError: the target has other records than were written."""
        self._append(key)
        log = self._logs.get(key)
        if not whole or log is None or log.records == log.checked:
            return
        if _read_whole(self._target, key).digest.digest() != log.digest.digest():
            del self._logs[key]
            raise changed(self._target, key)
        log.checked = log.records

    def _read(self, key: str) -> Records:
        """Hold what comes next."""
        log = self._logs.get(key) or self._taken_up(key)
        self._logs[key] = log
        found = self._source.read_records(key, log.cursor)
        if found.restarted:  # it became another file: these are from its beginning
            self._target.remove(key)
            log = self._logs[key] = _Log(restarts=log.restarts + 1)
        if log.restarts > MOST_RESTARTS:
            raise ProtocolError("unreadable", f"{self._source.describe(key)} is replaced again and again")
        log.hold(found.records, are_rows=_has_rows(key))
        log.cursor = found.cursor
        return found

    def _append(self, key: str, count: int | None = None) -> None:
        """The first of those that are held; None: all."""
        log = self._logs.get(key)
        if log is None or not log.held or count == 0:
            return
        records = log.held[:count]
        try:
            self._target.append_records(key, records, durable=True, once=False)  # the same may follow the same
        except StoreError:
            del self._logs[key]  # they may be there: whoever goes on looks first
            raise
        log.let_go(len(records))
        self.appended += len(records)

    def _taken_up(self, key: str) -> _Log:
        """Finds how far the target's records are the source's first ones; where they are not, it begins anew."""
        there, log = _read_whole(self._target, key), _Log()
        while log.records < there.records:
            found = self._source.read_records(key, log.cursor)
            log.hold(found.records, are_rows=_has_rows(key))
            log.let_go(min(len(found.records), there.records - log.records))
            log.cursor = found.cursor
            if not found.records:
                break
        if (log.records, log.digest.digest()) != (there.records, there.digest.digest()):
            self._target.remove(key)
            return _Log()
        log.checked = log.records
        return log


def changed(store: Store, key: str) -> StoreError:
    """Raised where somebody else writes into the target."""
    return StoreError(f"{store.describe(key)} has other bytes than were written: does somebody else write there?")


def _has_rows(key: str) -> bool:
    return key == keys.metrics(key.split("/")[1])


def _place_of(record: bytes) -> Place:
    row = parse_line(record, _OfRound) if record.startswith(b"{") else None
    return NOWHERE if row is None else (row.round, row.stage)


def _read_whole(store: Store, key: str) -> _Log:
    log, more = _Log(), True
    while more:
        found = store.read_records(key, log.cursor)
        log.add(found.records)
        log.cursor, more = found.cursor, found.more
    return log
