"""BucketStore: one handle of an experiment in a bucket."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import anyio

from swarm.errors import AlreadyThereError, ProtocolError, StoreError
from swarm.lines import LogFile
from swarm.store.base import (
    MOST_PER_READ,
    PAGE,
    Blob,
    Entry,
    Facts,
    Hint,
    Kind,
    Page,
    Prefixes,
    Records,
    Spent,
    get_each,
)
from swarm.store.bucket import bundles, growing
from swarm.store.bucket.client import Client, tag_of
from swarm.store.bucket.cursor import read_on
from swarm.store.bucket.growing import Growing
from swarm.store.bucket.listing import Walk, list_page
from swarm.store.bucket.log import SealedLog
from swarm.store.bucket.names import may_grow
from swarm.wire import keys

_RACERS = 8
"""Creators of one object at once, by which `facts` sees whether there is one winner."""
_SOON = 5.0
"""Seconds for which `facts` waits to see its own object in a listing."""
_AT_ONCE = 8
"""Objects that `get_many` reads at the same time."""


class BucketStore:
    """Keys are the names of objects below a root. See swarm.store.bucket for what is one object and what several."""

    def __init__(self, client: Client, root: str, kind: str, writer: str | None = None) -> None:
        """Nothing is asked of the bucket yet.

        Args:
            root: start of all names, such as `prefix/experiments/mine`.
            kind: as of Facts.
            writer: who writes here, a name that no other process has; None: nobody, this store only reads.
        """
        self._client = client
        self._root = root
        self._kind = kind
        self._writer = writer
        self._growing: dict[str, Growing] = {}
        self._bundles: dict[str, bundles.Manifest] = {}
        """Those that were listed, by prefix: names below one are looked for in it."""
        self._free: set[str] = set()
        """Names with a dot above keys that were written, of which none is a file."""
        self._lock = threading.Lock()

    @property
    def spent(self) -> Spent:
        return self._client.spent

    def describe(self, key: str = "") -> str:
        return self._client.describe(f"{self._root}/{key}" if key else self._root)

    def room(self) -> None:
        return None

    def facts(self) -> Facts:
        self._check_writer()
        probe = f"{keys.DRAFTS}/{self._writer}/probe-{uuid.uuid4().hex}"
        try:
            with ThreadPoolExecutor(_RACERS) as threads:
                won = sum(threads.map(lambda number: self._is_first(probe, b"%d" % number), range(_RACERS)))
            exclusive = won == 1 and not self._is_first(probe, b"late")
            return Facts(self._kind, exclusive, hints=False, freshness=self._freshness(probe))
        finally:
            self._client.delete([self._name(probe)])

    def _is_first(self, key: str, data: bytes) -> bool:
        try:
            self._client.create(self._name(key), data, trusting=True)
        except AlreadyThereError:
            return False
        return True

    def _freshness(self, key: str) -> float:
        prefix, _, name = key.rpartition("/")
        began = time.monotonic()
        while name not in {entry.name for entry in self.list(prefix).entries} and time.monotonic() < began + _SOON:
            time.sleep(0.05)
        return time.monotonic() - began

    # ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────
    def put(self, key: str, data: bytes, *, if_absent: bool = False, durable: bool = True) -> None:
        name = self._writing(key)
        if if_absent:
            self._client.create(name, data)
            return
        self._client.put(name, data)
        if may_grow(key):
            growing.remove(self._client, name)
            self._growing.pop(key, None)

    def get(self, key: str, limit: int) -> Blob:
        name = self._name(key)
        try:
            got = self._client.get(name, limit)
        except FileNotFoundError:
            if not (inside := self._in_checkpoint(key)):
                raise
            got = self._client.get(inside, limit)
        return Blob(got.data, got.tag)

    def _in_checkpoint(self, key: str) -> str:
        """The object of a file in a checkpoint; "" for other keys, and for one that its manifest does not name."""
        first, *rest = key.split("/")
        if first != keys.CHECKPOINTS or len(rest) < 3:
            return ""
        prefix = self._name("/".join((first, *rest[:2])))
        return bundles.object_of(prefix, bundles.manifest_of(self._client, prefix), "/".join(rest[2:]))

    def get_many(self, keys: Sequence[str], limit: int) -> list[Blob | ProtocolError | None]:
        if len(keys) < 2:
            return get_each(self, keys, limit)
        with ThreadPoolExecutor(min(_AT_ONCE, len(keys))) as threads:
            return [found for (found,) in threads.map(lambda key: get_each(self, [key], limit), keys)]

    def get_to_file(self, key: str, target: Path, limit: int) -> None:
        try:
            self._client.download(self._name(key), target, limit)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StoreError(f"cannot copy {self.describe(key)} to {target}: {error.strerror or error}") from error

    def stat(self, key: str) -> Entry | None:
        name, last = self._name(key), key.rpartition("/")[2]
        if found := self._client.head(name):
            return Entry(last, Kind.FILE, found["size"], tag_of(found))
        if may_grow(key) and (segments := growing.segments_of(self._client, name)):
            end = segments[-1]
            return Entry(last, Kind.FILE, end.end, f"{end.birth}-{end.end}")
        page = self.list(key, limit=1)
        return Entry(last, Kind.PREFIX) if page.entries else None

    def list(self, prefix: str, *, after: str = "", limit: int = PAGE, tags: bool = False) -> Page:
        if (inside := self._in_bundle(prefix)) is not None:
            return _page_of(bundles.entries_of(*inside, tags=tags), after, limit)
        name = self._name(prefix)
        page, is_bundle = list_page(self._client, name, after, limit, tags=tags)
        if not is_bundle:
            return page
        try:
            manifest = self._bundles[prefix] = bundles.manifest_of(self._client, name)
        except (FileNotFoundError, ProtocolError):
            return Page([])
        return _page_of(bundles.entries_of(manifest, "", tags=tags), after, limit)

    def _in_bundle(self, prefix: str) -> tuple[bundles.Manifest, str] | None:
        for bundle, manifest in self._bundles.items():
            if prefix.startswith(f"{bundle}/"):
                return manifest, prefix.removeprefix(f"{bundle}/")
        return None

    # ── bundles ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def put_bundle(self, prefix: str, fill: Callable[[Path], None]) -> None:
        bundles.put_bundle(self._client, self._writing(prefix), fill)

    @contextmanager
    def open_bundle(self, prefix: str) -> Iterator[Path]:
        with bundles.open_bundle(self._client, self._name(prefix)) as folder:
            yield folder

    # ── records ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def append_records(self, key: str, records: Sequence[bytes], *, durable: bool) -> None:
        file = self._grown(key)
        if records:
            file.append(b"".join(record + b"\n" for record in records), once=True)

    def read_records(self, key: str, cursor: str = "", limit: int = MOST_PER_READ) -> Records:
        return read_on(self._client, self._name(key), cursor, limit)

    def open_log(self, key: str) -> LogFile:
        return SealedLog(self._grown(key))

    def _grown(self, key: str) -> Growing:
        name = self._writing(key)
        if not may_grow(key):
            raise ValueError(f"expected a key of a growing file, whose name does not end in .json, got {key!r}")
        with self._lock:
            return self._growing.setdefault(key, Growing(self._client, name))

    def sync(self, key: str) -> None:
        """What a bucket has taken is durable."""
        self._check_writer()

    def recover(self) -> None:
        self._check_writer()
        bundles.recover(self._client, self._name(keys.CHECKPOINTS), self._writer or "")

    # ── removal ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def remove(self, key: str) -> None:
        self._check_writer()
        name = self._name(key)
        if may_grow(key):
            growing.remove(self._client, name)
            self._growing.pop(key, None)
        self._client.delete([name])

    def remove_prefix(self, prefix: str) -> None:
        self._check_writer()
        self._bundles.pop(prefix, None)
        bundles.remove_prefix(self._client, self._name(prefix))

    # ── watching ────────────────────────────────────────────────────────────────────────────────────────────────────
    async def watch(self, prefixes: Sequence[str], interval: float, hint: Hint, among_them: Prefixes = tuple) -> None:
        """A bucket tells nobody anything."""
        await anyio.sleep_forever()

    # ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────────
    def _check_writer(self) -> None:
        if self._writer is None:
            raise StoreError(f"{self.describe()} was opened to read only")

    def _name(self, key: str) -> str:
        parts = key.split("/") if key else []
        if not {"", ".", ".."}.isdisjoint(parts) or "~" in key or any(c < " " or c == "\x7f" for c in key):
            raise ValueError(f"expected a key such as `peers/anna.json`, got {key!r}")
        return f"{self._root}/{key}" if key else self._root

    def _writing(self, key: str) -> str:
        """The name to write at, once it was seen that this may be done.

        Raises:
            StoreError: this handle only reads, or something else is in the way (see swarm.store.bucket).
        """
        self._check_writer()
        name, parts = self._name(key), key.split("/")
        if len(parts) == 1 and Walk(self._client, name).next() is not None:
            raise StoreError(f"cannot write {self.describe(key)}: a prefix stands there", blocked=True)
        for depth in range(1, len(parts)):
            above = "/".join(parts[:depth])
            if "." in parts[depth - 1] and above not in self._free:
                if self._client.head(self._name(above)) is not None:
                    raise StoreError(f"cannot write {self.describe(key)}: {above} is a file", blocked=True)
                self._free.add(above)
        return name


def _page_of(entries: Sequence[Entry], after: str, limit: int) -> Page:
    behind = [entry for entry in entries if entry.name > after]
    page = behind[: max(1, limit)]
    return Page(page, page[-1].name if len(behind) > len(page) else "")
