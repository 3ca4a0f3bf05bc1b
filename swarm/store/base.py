"""The contract of a store: everything that a node, coordinator, judge or view does with a shared place.

A store holds the files of one experiment under *keys*: relative names such as `rollouts/round_3/stage_0/anna.json`,
made by swarm.wire.keys alone. Parts are separated by "/"; none is empty, "." or "..". A *prefix* is a key without its
last parts; "" is the whole experiment. No path of the shared place leaves this package.

    node, coordinator, judge ─▶ Blocking.run ─┐
    views, study, commands ───────────────────┴▶ Store ─┬ FolderStore   a directory (local, NFS, FUSE ...)
                                                        └ BucketStore   objects (S3, Google Cloud Storage, Azure)

A place gives these verbs, and no others:

    files       get, get_to_file, put, stat, list, remove
    bundles     put_bundle, open_bundle, remove_prefix: many files that are seen at once
    logs        append_records, read_records, open_log: what one writer has grow
    lives       sync, recover: what a former life of this writer left
    place       facts, watch, describe

What is no primitive of a place is written once above it: several files at a time (`get_many`), records between two
bytes (swarm.store.records), private copies and opened bundles (swarm.store.copies), wake-ups (swarm.store.wake_ups).

The verbs block. A node awaits them as `await blocking.run(store.get, key, limit)`, several in one call where what they
read is decoded beside them: the event loop stays free, and a simulation runs them inline.

What every implementation promises, and tests/conformance holds, one test per promise:

    atomic      A reader sees the whole of one `put` or bundle, or the whole of the one before; never a mixture.
    durable     What `put(durable=True)`, `put_bundle` and `append_records(durable=True)` acknowledged by returning
                outlives the writer's death and a power cut. What raised may be there or not; trying again is safe and
                doubles nothing.
    exclusive   Of any number of `put(if_absent=True)` for one key at most one returns; but for a mount without hard
                links, and a server that ignores conditions, where two of the very same moment may both return.
    own order   A reader that sees a write of one writer sees, or will soon see, all that this writer put before it;
                nothing is promised between writers.
    growing     Records of one key come whole, once each, in the order of appending. One writer per key.
    bounded     No call takes in more than its `limit`, whatever lies there; nothing blocks on odd files or follows
                links.
    own way     What else stands at a key where its writer writes (a prefix, a link, a pipe, a file with a second name)
                goes, and is logged; at the top of an experiment it stays, and the write is refused.
    listing     Listing is the truth about what is there; hints only say that it is time to list.

What a reader has to live with: a write becomes visible late, at once on a disk and seconds later elsewhere; a listing
may still show what is gone and not yet show what is there; an older version may be read again for a while; hints may be
lost, late, doubled, or come for nothing.

Errors: FileNotFoundError where a key or bundle is not there; ProtocolError (`oversized`, `not_a_file`, `unreadable`)
where what lies there is not to be taken; AlreadyThereError for `if_absent`; StoreError where the place itself fails
(full, read-only, gone, or `blocked`: something else stands at the key, which no patience fixes). Nothing else is raised
for what lies there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, ParamSpec, Protocol, TypeVar, runtime_checkable

from swarm.errors import ProtocolError
from swarm.lines import LogFile

P = ParamSpec("P")
Result = TypeVar("Result")
Hint = Callable[[], None]
"""Called when something may have changed."""
Prefixes = Callable[[], Collection[str]]
"""Asked for again and again, since what it gives changes."""

MOST_NAMES = 500_000
"""A listing ends after so many names, should somebody flood a prefix. Runs have some thousands."""
PAGE = 1000
"""Entries of one page, unless asked otherwise; object stores give no more."""
MOST_PER_RECORD = 2**20
"""Bytes. Longer records are junk and read as b""; a metrics row has some 2 kB."""
MOST_PER_READ = 8 * 2**20
"""Bytes that one `read_records` takes in; the next one goes on there."""

_AT_ONCE = 8
"""Files that `get_many` reads at the same time."""


class Kind(StrEnum):
    FILE = "file"
    PREFIX = "prefix"
    """A folder, or the common start of several keys."""
    OTHER = "other"
    """A link, pipe, socket or device: never opened."""


class Entry(NamedTuple):
    name: str
    """The last part of its key."""
    kind: Kind
    size: int = 0
    """Bytes of a FILE, where tags were asked for."""
    tag: str = ""
    """Version of a FILE, where tags were asked for: another one whenever its content may be another."""


class Page(NamedTuple):
    """Part of a listing, in the order of names."""

    entries: list[Entry]
    next: str = ""
    """Give this as `after` for the page that follows; "": there is none."""
    looked: int = 0
    """Names that were gone through for it, with those that no listing shows: what it cost."""


class Blob(NamedTuple):
    """The bytes of one key, and the version that they are."""

    data: bytes
    tag: str


class Records(NamedTuple):
    """Records of a growing file, without their newlines."""

    records: list[bytes]
    """Whole ones; b"" stands for one above MOST_PER_RECORD."""
    cursor: str
    """Opaque; where the next reading goes on."""
    torn: bool = False
    """The file ends in half a record: it is being written, or its writer was killed."""
    more: bool = False
    """The limit was reached: read again at once."""
    restarted: bool = False
    """The cursor was of another file than the one that is there now: these are from its beginning."""
    cut: bool = False
    """The cursor was `end_of` a file, and records lie before these."""


def end_of(size: int) -> str:
    """Returns the cursor at which the last `size` bytes of any file begin, or all of a smaller one."""
    return f"-{size}"


def bytes_of_end(cursor: str) -> int:
    """Returns for how many last bytes a cursor asks; 0: it says where another reading stopped."""
    return int(cursor[1:]) if cursor[:1] == "-" and cursor[1:].isdecimal() else 0


@dataclass
class Spent:
    """Counts what a handle has asked of a place where requests are paid for."""

    requests: Counter[str] = field(default_factory=Counter)
    """Kind (get, head, list, put, delete) -> requests, those that failed too."""
    sent: int = 0
    """Bytes of contents."""
    received: int = 0
    spared: int = 0
    """Bytes that contents, sent and received, were longer before they were packed."""

    def totals(self) -> tuple[int, int, int, int, int, int]:
        """Writes, listings, reads, bytes sent, received and spared so far; removals are free."""
        asked = self.requests
        return asked["put"], asked["list"], asked["get"] + asked["head"], self.sent, self.received, self.spared


class Room(NamedTuple):
    """Says how much may still be written."""

    free: int
    """Bytes for this user."""
    inodes: int | None
    """Files; None where there is no such limit."""
    total: int = 0
    """Bytes that there are; 0: that cannot be told."""


class Facts(NamedTuple):
    """States what a handle knows of its place without asking it: whoever computes is not held up by one that hangs."""

    spent: Spent | None = None
    """What this handle has asked so far, where requests are paid for; None: they cost nothing."""
    room: Room | None = None
    """How much could still be written after this handle's last `put`, and of how much; None where nobody knows."""


class Blocking(Protocol):
    """The asynchronous face: runs calls that block off the event loop, or for some virtual time."""

    async def run(self, call: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """Run it and give what it returns or raises. If the caller is cancelled, the call still ends by itself."""

    async def run_or_leave(self, call: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """The same; a caller that is cancelled leaves at once, and the call goes on no longer than the process."""


class Store(Protocol):
    """The blocking face, callable from any thread. A store that was opened without a writer refuses to write."""

    def describe(self, key: str = "") -> str:
        """Returns the key as people find it, such as a path or URL; for messages alone."""

    def facts(self) -> Facts:
        """Returns what this handle knows of the place by now."""

    def put(self, key: str, data: bytes, *, if_absent: bool = False, durable: bool = True) -> None:
        """Write a file, whole or not at all, in the place of whatever was there under this key.

        Args:
            if_absent: raise AlreadyThereError instead of replacing anything.
            durable: it outlives a power cut when this returns; False is quicker.
        """

    def get(self, key: str, limit: int) -> Blob:
        """Read a file of at most `limit` bytes."""

    def get_to_file(self, key: str, target: Path, limit: int) -> None:
        """Copy a file, in pieces, to a new local file outside the shared place."""

    def stat(self, key: str) -> Entry | None:
        """Returns what stands at a key; None: nothing."""

    def list(self, prefix: str, *, after: str = "", limit: int = PAGE, tags: bool = False) -> Page:
        """Returns the names in a prefix that are text (UTF-8), from the first one behind `after` on; none if it is not
        there.

        Args:
            limit: entries of this page, at most MOST_NAMES.
            tags: give sizes and version tags, which costs a folder a look at each name.
        """

    def put_bundle(self, prefix: str, fill: Callable[[Path], None]) -> None:
        """Write many files that are visible whole under `prefix` or not at all, replacing a bundle that is there.

        Args:
            fill: writes files and folders into an empty local folder, which is taken over or copied.

        Raises:
            StoreError: it cannot be written; what was there before stays.
        """

    def open_bundle(self, prefix: str) -> AbstractContextManager[Path]:
        """Returns a local folder with regular files only: the bundle, to read from and nothing else, for the block."""

    def append_records(self, key: str, records: Sequence[bytes], *, durable: bool, once: bool = True) -> None:
        """Append records (texts without newlines) to a growing file that nobody else writes; all or none of them.

        Half a record that a death left at the end goes. Called again with the same last records after an error, it
        doubles nothing.

        Args:
            once: not where the file ends with them already; False: they are new, whatever stands there.
        """

    def read_records(self, key: str, cursor: str = "", limit: int = MOST_PER_READ) -> Records:
        """Whole records behind a cursor, at most about `limit` bytes of them; none of a file that is not there.

        A file that became another one, or shorter, is read from its beginning, and `Records.restarted` says so. With
        the cursor `end_of(size)` the first record is the first whole one in the last bytes, and `Records.cut` says
        whether any lie before it; a place may give all of them.
        """

    def open_log(self, key: str) -> LogFile:
        """Open a growing file for lines that cost nobody anything and need not be durable, and keep it open.

        Of a log of tens of MiB the oldest lines may go; whoever reads it on meanwhile gets each line once.

        Raises:
            StoreError: it cannot be opened.
        """

    def sync(self, key: str) -> None:
        """Bring to disk what a former life of this writer put or appended at this key: its kill may have come between
        the write and its sync. What is not there is left alone."""

    def recover(self) -> None:
        """Finish or undo what a former life of this writer left half-done, and remove its drafts."""

    def remove(self, key: str) -> None:
        """Remove a file; what is not there is removed already."""

    def remove_prefix(self, prefix: str) -> None:
        """Remove everything below a prefix: first out of sight, so that nobody finds half of a bundle."""

    async def watch(self, prefixes: Sequence[str], interval: float, hint: Hint, among_them: Prefixes = tuple) -> None:
        """Call `hint`, in the event loop, when something below these prefixes may have changed; until cancelled.

        Args:
            interval: seconds after which the reader lists anyway; so that it can be told when hints stay away.
            among_them: prefixes below those that matter most now, asked for again and again: a store that can only
                watch some of what lies there watches these.
        """


def parts_of(key: str) -> tuple[str, ...]:
    """Returns the parts of a key; none of "". Raises ValueError: it is none."""
    parts = tuple(key.split("/")) if key else ()
    if not {"", ".", ".."}.isdisjoint(parts) or "\0" in key:
        raise ValueError(f"expected a key such as `peers/anna.json`, got {key!r}")
    return parts


def page_of(entries: Sequence[Entry], after: str, limit: int) -> Page:
    """Returns a page of entries that are all known, in the order of names."""
    behind = [entry for entry in entries if entry.name > after]
    page = behind[: max(1, min(limit, MOST_NAMES))]
    return Page(page, page[-1].name if len(behind) > len(page) else "", len(page))


@runtime_checkable
class Holding(Protocol):
    """Marks a store that reads several files of one prefix for less where it knows that they are read together."""

    def holding(self, prefix: str) -> AbstractContextManager[None]:
        """Keeps a prefix open, for the block, for what this thread reads right below it."""


@runtime_checkable
class Deep(Protocol):
    """Marks a store that lists all files below a prefix for less than level by level."""

    def files_below(self, prefix: str) -> Iterator[tuple[str, Entry]]:
        """Yields key and entry, with its tag, of the files below a prefix of no checkpoints and logs, in the order of
        keys, at most MOST_NAMES. Raises StoreError if they cannot be listed."""


def get_many(store: Store, keys: Sequence[str], limit: int) -> list[Blob | ProtocolError | None]:
    """Reads several files, each of at most `limit` bytes; None for one that is not there, an error for one refused.

    Files of one prefix that follow each other are read together. Where requests are paid for, which is far away, some
    are read at the same time.
    """
    if len(keys) < 2 or store.facts().spent is None:
        found: list[Blob | ProtocolError | None] = []
        for prefix, together in groupby(keys, lambda key: key.rpartition("/")[0]):
            with store.holding(prefix) if len(keys) > 1 and isinstance(store, Holding) else nullcontext():
                found += [_get_if_there(store, limit, key) for key in together]
        return found
    from concurrent.futures import ThreadPoolExecutor  # here: a folder needs none, and each start would pay for it

    with ThreadPoolExecutor(min(_AT_ONCE, len(keys))) as threads:
        return list(threads.map(partial(_get_if_there, store, limit), keys))


def _get_if_there(store: Store, limit: int, key: str) -> Blob | ProtocolError | None:
    try:
        return store.get(key, limit)
    except FileNotFoundError:
        return None
    except ProtocolError as refused:
        return refused.as_value()


def copy_whole(store: Store, key: str, target: Path, limit: int) -> None:
    """Copies a file by way of memory; it implements Store.get_to_file."""
    data = store.get(key, limit).data
    with open(target, "xb") as file:
        file.write(data)
