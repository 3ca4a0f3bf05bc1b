"""BucketStore: one handle of an experiment in a bucket."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import anyio

from swarm.errors import ProtocolError, StoreError
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
    copy_whole,
    page_of,
    parts_of,
)
from swarm.store.bucket import bundles, growing, packing
from swarm.store.bucket.growing import GrowingWriter
from swarm.store.bucket.listing import Walk, bundle_of, grown, holds_bundles, list_page, may_grow, objects
from swarm.store.bucket.log import SEALED_AFTER, SEALED_SELDOM, SealedLog
from swarm.store.bucket.objects import Objects, tag_of
from swarm.wire import keys


class BucketStore:
    """Keys are the names of objects below a root. See swarm.store.bucket for what is one object and what several."""

    def __init__(self, client: Objects, root: str, writer: str | None = None, *, packs: bool = False) -> None:
        """Asks nothing of the bucket yet.

        Args:
            root: start of all names, such as `prefix/experiments/mine`.
            writer: who writes here, a name that no other process has; None: nobody, this store only reads.
            packs: what it writes is packed, see packing.py.
        """
        self._client = client
        self._packs = packs
        self._root = root
        self._writer = writer
        self._growing: dict[str, GrowingWriter] = {}
        self._bundle: tuple[str, bundles.BundleManifest | None] = ("", None)
        """The one that was listed last: names below it are looked for in it."""
        self._free: set[str] = set()
        """Names with a dot above keys that were written, of which none is a file."""
        self._lock = threading.Lock()

    def describe(self, key: str = "") -> str:
        return self._client.describe(f"{self._root}/{key}" if key else self._root)

    def facts(self) -> Facts:
        return Facts(spent=self._client.spent)

    # ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────
    def put(self, key: str, data: bytes, *, if_absent: bool = False, durable: bool = True) -> None:
        name = self._writing(key)
        if if_absent:
            self._client.create(name, data)
            return
        packed = packing.pack(data) if self._packs and key.endswith(".json") else data
        self._client.spent.spared += len(data) - len(packed)
        self._client.put(name, packed)
        if may_grow(key):
            self._client.clear(grown(name))
            self._growing.pop(key, None)

    def get(self, key: str, limit: int) -> Blob:
        name = self._name(key)
        try:
            got = self._client.get(name, limit)
        except FileNotFoundError:
            if not (inside := self._in_checkpoint(key)):
                raise
            got = self._client.get(inside, limit)
        data = packing.unpack(got.data, limit, self.describe(key))
        self._client.spent.spared += len(data) - len(got.data)
        return Blob(data, got.tag)

    def _in_checkpoint(self, key: str) -> str:
        """Returns the object of a file in a checkpoint; "" for other keys, and for one its manifest does not name."""
        bundle = bundle_of(key)
        if not bundle or key == bundle:
            return ""
        prefix = self._name(bundle)
        return bundles.object_of(prefix, bundles.manifest_of(self._client, prefix), key[len(bundle) + 1 :])

    def get_to_file(self, key: str, target: Path, limit: int) -> None:
        if key.endswith(".json"):  # which may be packed
            copy_whole(self, key, target, limit)
            return
        try:
            self._client.download(self._name(key), target, limit)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StoreError(f"cannot copy {self.describe(key)} to {target}: {error.strerror or error}") from error

    def stat(self, key: str) -> Entry | None:
        name, last = self._name(key), key.rpartition("/")[2]
        try:
            found = self._client.head(name)
        except ProtocolError:
            return Entry(last, Kind.OTHER)
        if found:
            return Entry(last, Kind.FILE, found["size"], tag_of(found))
        if may_grow(key) and (segments := growing.segments_of(self._client, name)):
            end = max(segment.end for segment in segments)
            return Entry(last, Kind.FILE, end, f"{segments[-1].birth}-{segments[-1].end}-{end}")
        bundle = bundle_of(key)
        if bundle and key != bundle and (manifest := self._manifest(bundle, again=True)):
            below = key[len(bundle) + 1 :].rpartition("/")[0]
            return next((e for e in bundles.entries_of(manifest, below, tags=True) if e.name == last), None)
        page = self.list(key, limit=1)
        return Entry(last, Kind.PREFIX) if page.entries else None

    def list(self, prefix: str, *, after: str = "", limit: int = PAGE, tags: bool = False) -> Page:
        bundle = bundle_of(prefix)
        if bundle:  # what lies there without being named by a manifest is a stranger's
            manifest, below = self._manifest(bundle, again=prefix == bundle), prefix[len(bundle) + 1 :]
            return page_of(bundles.entries_of(manifest, below, tags=tags) if manifest else [], after, limit)
        of_bundles = holds_bundles(prefix)
        return list_page(self._client, self._name(prefix), after, limit, tags=tags, bundles=of_bundles)

    def files_below(self, prefix: str) -> Iterator[tuple[str, Entry]]:
        for meta in objects(self._client, self._name(prefix)):
            key = meta["path"].removeprefix(f"{self._root}/")
            if "~" not in key:
                yield key, Entry(key.rpartition("/")[2], Kind.FILE, meta["size"], tag_of(meta))

    def _manifest(self, bundle: str, *, again: bool) -> bundles.BundleManifest | None:
        if again or self._bundle[0] != bundle:
            self._bundle = (bundle, None)
            with suppress(FileNotFoundError, ProtocolError):
                self._bundle = (bundle, bundles.manifest_of(self._client, self._name(bundle)))
        return self._bundle[1]

    # ── bundles ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def put_bundle(self, prefix: str, fill: Callable[[Path], None]) -> None:
        bundles.put_bundle(self._client, self._writing(prefix), fill)

    def open_bundle(self, prefix: str) -> AbstractContextManager[Path]:
        return bundles.open_bundle(self._client, self._name(prefix))

    # ── records ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def append_records(self, key: str, records: Sequence[bytes], *, durable: bool, once: bool = True) -> None:
        file = self._grown(key)
        if records:
            file.append(b"".join(record + b"\n" for record in records), once=once)

    def read_records(self, key: str, cursor: str = "", limit: int = MOST_PER_READ) -> Records:
        return growing.read_on(self._client, self._name(key), cursor, limit)

    def open_log(self, key: str) -> LogFile:
        """`stdout.log` says what the events beside it say, which views read; so it is put seldom from the beginning."""
        return SealedLog(self._grown(key), waits=SEALED_AFTER if key.endswith(".jsonl") else SEALED_SELDOM)

    def _grown(self, key: str) -> GrowingWriter:
        name = self._writing(key)
        if not may_grow(key):
            raise ValueError(f"expected a key of a growing file, whose name does not end in .json, got {key!r}")
        with self._lock:
            return self._growing.setdefault(key, GrowingWriter(self._client, name))

    def sync(self, key: str) -> None:
        """Does nothing but check that this handle may write: what a bucket has taken is durable."""
        self._check_writer()

    def recover(self) -> None:
        self._check_writer()
        bundles.recover(self._client, self._name(keys.CHECKPOINTS), self._writer or "")

    # ── removal ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def remove(self, key: str) -> None:
        self._check_writer()
        name = self._name(key)
        if may_grow(key):
            self._client.clear(grown(name))
            self._growing.pop(key, None)
        self._client.delete([name])

    def remove_prefix(self, prefix: str) -> None:
        self._check_writer()
        self._bundle = ("", None)
        self._client.clear(self._name(prefix))

    # ── watching ────────────────────────────────────────────────────────────────────────────────────────────────────
    async def watch(self, prefixes: Sequence[str], interval: float, hint: Hint, among_them: Prefixes = tuple) -> None:
        """A bucket tells nobody anything."""
        await anyio.sleep_forever()

    # ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────────
    def _check_writer(self) -> None:
        if self._writer is None:
            raise StoreError(f"{self.describe()} was opened to read only")

    def _name(self, key: str) -> str:
        parts_of(key)
        if "~" in key or any(c < " " or c == "\x7f" for c in key):
            raise ValueError(f"expected a key such as `peers/anna.json`, got {key!r}")
        return f"{self._root}/{key}" if key else self._root

    def _is_object(self, key: str) -> bool:
        try:
            return self._client.head(self._name(key)) is not None
        except ProtocolError:
            return True

    def _writing(self, key: str) -> str:
        """Returns the name to write at, once it was seen that this may be done.

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
                if self._is_object(above):
                    raise StoreError(f"cannot write {self.describe(key)}: {above} is a file", blocked=True)
                self._free.add(above)
        return name
