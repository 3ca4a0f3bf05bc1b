"""Client: single requests to a bucket, counted, tried again where trying may help, failing as StoreError.

Nothing of obstore is raised. What each request does, and raises, is said in swarm.store.bucket.objects.Objects.
"""

from __future__ import annotations

import hashlib
import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, InvalidPathError

from swarm.errors import AlreadyThereError, ProtocolError, StoreError
from swarm.store.base import PAGE, Spent
from swarm.store.bucket.answers import Trouble, no_bucket, trouble_of
from swarm.store.bucket.listing import MANIFEST, objects
from swarm.store.bucket.objects import PAUSES, PIECE, Got, ObjectMeta, OddNameError, Upload, tag_of

if TYPE_CHECKING:
    from obstore.store import ObjectStore

T = TypeVar("T")
_MOST_PARTS = 9_000
_TOGETHER = 4
"""Parts of one upload at a time."""
_MARK = "swarmput"
"""Metadata by which a create whose answer was lost is known again."""


class BucketClient:
    """One handle's way to a bucket; it implements Objects."""

    def __init__(
        self,
        bucket: ObjectStore,
        address: str,
        *,
        uploads: ObjectStore | None = None,
        pause: Callable[[float], object] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Asks nothing yet.

        Args:
            bucket: tries nothing again.
            address: as people find it, such as `s3://mine`.
            uploads: the same bucket, for large files: tries a part again by itself.
            pause: waits for some seconds before a further try.
            chance: a random number below 1.
        """
        self._bucket = bucket
        self._uploads = uploads or bucket
        self._obeys: bool | None = None
        """The server obeys `If-None-Match`; None: not tried yet."""
        self._address = address
        self._lists_anew = address.startswith("az:")
        """The server may begin each listing at the first name: what was seen is passed over here."""
        self._pause = pause
        self._chance = chance
        self.spent = Spent()

    def describe(self, name: str) -> str:
        return f"{self._address}/{name}"

    # ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def put(self, name: str, data: bytes) -> None:
        self.spent.sent += len(data)
        self._ask("put", "write", name, lambda: obstore.put(self._bucket, name, data, use_multipart=False))

    def create(self, name: str, data: bytes, *, trusting: bool = False) -> None:
        """Implements Objects.create.

        A server that ignores conditions is found out at the first one, and said to be such. From then on it is looked
        before each, and read afterwards: of two who create one object at the very same moment both may return then.
        """
        mark = uuid.uuid4().hex
        self.spent.sent += len(data)
        for _ in range(len(PAUSES)):
            look = not (trusting or self._obeys)
            if (not look or self._there(name, len(data)) is None) and self._is_first(name, data, mark, trusting):
                return
            if (there := self._there(name, len(data))) is not None:
                if there.mark == mark or (not there.mark and there.data == data):
                    return
                break
            # what was in the way is gone again: two who wanted to be first, of whom none was
        raise AlreadyThereError(f"{self.describe(name)} is there already")

    def _is_first(self, name: str, data: bytes, mark: str, trusting: bool) -> bool:
        """Tells whether a server that obeys conditions, or is trusted, took it."""
        try:
            self._ask("put", "write", name, lambda: self._create(name, data, mark))
        except AlreadyExistsError:
            self._obeys = True
            return False
        if self._obeys is None and not trusting:
            self._obeys = self._refuses_a_second(name, data, mark)
        return trusting or bool(self._obeys)

    def _refuses_a_second(self, name: str, data: bytes, mark: str) -> bool | None:
        """Create once more what was just created, which harms nobody; None: it cannot be told."""
        with suppress(StoreError):
            try:
                self._ask("put", "write", name, lambda: self._create(name, data, mark))
            except AlreadyExistsError:
                return True
            say_that_conditions_are_ignored(self._address)
            return False
        return None

    def _create(self, name: str, data: bytes, mark: str) -> object:
        return obstore.put(self._bucket, name, data, use_multipart=False, mode="create", attributes={_MARK: mark})

    def _there(self, name: str, limit: int) -> Got | None:
        try:
            return self.get(name, limit)
        except FileNotFoundError:
            return None
        except ProtocolError:
            return Got(b"", "", "another")

    def upload(self, name: str, file: Path) -> Upload:
        """Implements Objects.upload, in parts where the file is large."""
        size = file.stat().st_size
        piece = max(PIECE, size // _MOST_PARTS + 1)
        self.spent.requests["put"] += size // piece + 1 if size > piece else 0
        self.spent.sent += size

        def send() -> object:
            return obstore.put(self._uploads, name, file, chunk_size=piece, max_concurrency=_TOGETHER)

        self._ask("put", "write", name, send)
        with open(file, "rb") as data:
            return Upload(size, hashlib.file_digest(data, "sha256").hexdigest())

    def delete(self, names: Sequence[str]) -> None:
        for start in range(0, len(names), PAGE):
            some = list(names[start : start + PAGE])
            try:
                self._ask("delete", "remove", some[0], lambda some=some: obstore.delete(self._bucket, some))  # type: ignore[misc]
            except FileNotFoundError:
                if len(some) > 1:
                    for name in some:
                        self.delete([name])

    def clear(self, prefix: str) -> None:
        """Implements Objects.clear: manifests go first."""
        there = [meta["path"] for meta in objects(self, prefix)]
        for of_manifests in (True, False):
            self.delete([name for name in there if name.endswith(f"/{MANIFEST}") is of_manifests])

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def get(self, name: str, limit: int) -> Got:
        def read() -> Got:
            found = obstore.get(self._bucket, name)
            self._see_that_it_fits(name, found.meta["size"], limit)
            data = bytes(found.bytes()) if found.meta["size"] else b""
            return Got(data, tag_of(found.meta), str(found.attributes.get(_MARK, "")))

        got = self._ask("get", "read", name, read)
        self.spent.received += len(got.data)
        return got

    def get_range(self, name: str, start: int, end: int) -> bytes:
        def read() -> bytes:
            return bytes(obstore.get(self._bucket, name, options={"range": (start, end)}).bytes())

        data = self._ask("get", "read", name, read)
        self.spent.received += len(data)
        return data

    def download(self, name: str, target: Path, limit: int) -> Upload:
        try:
            found = self._ask("get", "read", name, lambda: self._stream(name, target, limit))
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        self.spent.received += found.size
        return found

    def _stream(self, name: str, target: Path, limit: int) -> Upload:
        found, digest, size = obstore.get(self._bucket, name), hashlib.sha256(), 0
        self._see_that_it_fits(name, found.meta["size"], limit)
        with open(target, "wb") as file:
            for piece in found.stream(min_chunk_size=PIECE) if found.meta["size"] else ():
                data = bytes(piece)
                digest.update(data)
                size += file.write(data)
        return Upload(size, digest.hexdigest())

    def _see_that_it_fits(self, name: str, size: int, limit: int) -> None:
        if size > limit:
            raise ProtocolError("oversized", f"{self.describe(name)} has {size} bytes, the limit is {limit}")

    def head(self, name: str) -> ObjectMeta | None:
        try:
            return self._ask("head", "look at", name, lambda: obstore.head(self._bucket, name))
        except FileNotFoundError:
            return None

    def pages(self, prefix: str, after: str) -> Iterator[Sequence[ObjectMeta]]:
        """Implements Objects.pages, each step one request. A page that breaks off is asked for again, from the last
        name on.

        Raises:
            StoreError: the server does not begin behind `after`: it would be asked without end.
        """
        more = True
        while more:
            page = self._ask("list", "list", prefix, lambda after=after: self._page(prefix, after))  # type: ignore[misc]
            more = len(page) >= PAGE
            if page and page[0]["path"] <= after:
                if not self._lists_anew:
                    raise StoreError(
                        f"cannot list {self.describe(prefix)}: the server gives names again that it gave before"
                    )
                page = [meta for meta in page if meta["path"] > after]
            yield page
            after = page[-1]["path"] if page else after

    def _page(self, prefix: str, after: str) -> Sequence[ObjectMeta]:
        pages = obstore.list(self._bucket, prefix, offset=after or None, chunk_size=PAGE)
        page = next(pages, [])
        while self._lists_anew and page and page[-1]["path"] <= after:
            self.spent.requests["list"] += 1
            page = next(pages, [])
        return page

    # ── trying ──────────────────────────────────────────────────────────────────────────────────────────────────────
    def _ask(self, kind: str, verb: str, name: str, request: Callable[[], T]) -> T:
        """Raises FileNotFoundError, StoreError, what refused conditions and odd names are, what is not obstore's.

        An object alone that is not given (in a storage class that is thawed first, under somebody's own key, with
        headers that are no text) is a ProtocolError, `unreadable`.
        """
        for pause in (*PAUSES, None):
            self.spent.requests[kind] += 1
            try:
                return request()
            except AlreadyExistsError:
                raise
            except InvalidPathError as error:
                raise OddNameError(str(error)) from None
            except FileNotFoundError as error:
                raise self._missing(kind, verb, name, error) from None
            except BaseError as error:
                trouble = trouble_of(error)
                if pause is None or not trouble.passing:
                    raise self._failed(kind, verb, name, trouble) from None
            self._pause(pause * self._chance())
        raise AssertionError("unreachable")

    def _failed(self, kind: str, verb: str, name: str, trouble: Trouble) -> Exception:
        said = f"cannot {verb} {self.describe(name)}: {trouble.said}; {trouble.advice}"
        if kind in ("get", "head") and not trouble.passing and self._is_listed(name.rpartition("/")[0]):
            return ProtocolError("unreadable", said)
        return StoreError(said)

    def _is_listed(self, prefix: str) -> bool:
        """Tells whether the server lists what lies around an object that it does not give: then that is the object's
        own."""
        try:
            self._ask("list", "list", prefix, lambda: self._page(prefix, ""))
        except StoreError:
            return False
        except OddNameError:
            pass
        return True

    def _missing(self, kind: str, verb: str, name: str, error: Exception) -> Exception:
        if kind in ("get", "head", "delete") and not no_bucket(error):
            return FileNotFoundError(self.describe(name))
        trouble = trouble_of(error)
        return StoreError(f"cannot {verb} {self.describe(name)}: {trouble.said}; {trouble.advice}")


def say_that_conditions_are_ignored(address: str) -> None:
    """A server that takes every create: exclusive creation is imitated there."""
    from swarm.logs import get_logger  # here, for commands that only look do without it

    consequence = "of two who write one name at the same moment one is lost: never start two nodes of one NODE_ID"
    get_logger(__name__).warning("bucket.ignores_conditions", bucket=address, consequence=consequence)
