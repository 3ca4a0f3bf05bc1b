"""A file that only grows, read on from where the last look ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from swarm import forms
from swarm.errors import ProtocolError
from swarm.store.base import MOST_PER_READ, Records, Store, end_of
from swarm.wire.codec import DEEPEST, nests_too_deeply

Form = TypeVar("Form")
Total = TypeVar("Total", bound="Sum")
MOST_JUNK = 10_000
"""Lines without meaning, after which a file is no log: what comes after is counted and not looked into."""
LONGEST_NAME = 64
"""Characters that are held of a name in a line: nodes, tasks, models, events."""
MOST_READS = 8
"""Reads of one look, 64 MiB together: 30,000 rounds. The next look goes on there."""


class GrowingLines:
    """The whole lines of one key, each once, over any number of looks."""

    def __init__(self, store: Store, key: str) -> None:
        self.torn = False
        """The last look ended before a line without its newline."""
        self._store = store
        self._key = key
        self._cursor = ""

    def look_at_end(self, size: int) -> Records:
        """Returns the whole lines in the last `size` bytes; the next look goes on behind them.

        What is not there (yet), or is no file, has no lines.
        """
        try:
            found = self._store.read_records(self._key, end_of(size), size + 1)
        except ProtocolError:
            return Records([], "")
        self._cursor, self.torn = found.cursor if found.records else "", found.torn
        return found

    @property
    def is_new(self) -> bool:
        """Nothing of it was read yet."""
        return not self._cursor

    def begin_again(self) -> None:
        """Have the next look begin at the first line."""
        self._cursor = ""

    def look(self, most_reads: int | None = MOST_READS, limit: int = 0) -> Iterator[Records]:
        """Yields what is new, part by part. Where a part is `restarted`, nothing read before belongs to this file.

        What is not there (yet), or is no file, has no lines.

        Args:
            most_reads: None: to the end, however far that is.
            limit: bytes of one read, and the rest of the record that they end in; 0: MOST_PER_READ.
        """
        reads = 0
        more = True
        while more and (most_reads is None or reads < most_reads):
            try:
                found = self._store.read_records(self._key, self._cursor, limit or MOST_PER_READ)
            except ProtocolError:
                self.torn = False
                return
            self._cursor, self.torn = found.cursor, found.torn
            reads, more = reads + 1, found.more
            yield found


class Sum(Protocol):
    """Sums up the lines of a file."""

    torn: bool
    """The file ends in a line without its newline."""

    def observe(self, lines: Sequence[bytes]) -> None:
        """Take note of the lines that come after those seen."""


class Follower(Generic[Total]):
    """Keeps what the lines of one key add up to up to date."""

    def __init__(self, store: Store, key: str, start: Callable[[], Total]) -> None:
        self._growing = GrowingLines(store, key)
        self._start = start
        self._total = start()

    def look(self) -> Total:
        """Reads on, and returns what all lines add up to by now."""
        for part in self._growing.look():
            if part.restarted:
                self._total = self._start()
            self._total.observe(part.records)
        self._total.torn = self._growing.torn
        return self._total


def lines_of(store: Store, key: str) -> Iterator[bytes]:
    """Yields all lines of a growing file, up to the bound of a look."""
    for part in GrowingLines(store, key).look():
        yield from part.records


def parse_line(line: bytes, form: type[Form]) -> Form | None:
    """Returns one JSON line as a struct or dict, or None for anything else."""
    try:
        said = forms.decode(line, form)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    deep = line.count(b"{") + line.count(b"[") > DEEPEST and nests_too_deeply(said)
    return None if deep else said
