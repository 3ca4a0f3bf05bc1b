"""The experiments of a bucket."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from swarm.config.place import BucketUrl
from swarm.errors import StoreError
from swarm.store.base import MOST_NAMES, Kind, Store
from swarm.store.health import Health
from swarm.store.place import EXPERIMENTS, Place
from swarm.wire import keys

if TYPE_CHECKING:
    from swarm.store.bucket.client import BucketClient
    from swarm.store.bucket.store import BucketStore


def open_bucket_place(url: BucketUrl) -> BucketPlace:
    """Opens the place, and asks nothing of the bucket yet. Raises as open_bucket does."""
    return BucketPlace(url)


class BucketPlace(Place):
    """A prefix of a bucket."""

    def __init__(self, url: BucketUrl) -> None:
        from swarm.store.bucket.opening import open_bucket

        self._url = url
        self._bucket = open_bucket(url)
        self._uploads = open_bucket(url, retries=True)

    def describe(self) -> str:
        return self._url.address

    def problem(self) -> str:
        try:
            self._at(EXPERIMENTS).list("", limit=1)
        except StoreError as error:
            return str(error)
        return ""

    def experiments(self) -> list[str]:
        there = self._at(EXPERIMENTS).list("", limit=MOST_NAMES).entries
        return [entry.name for entry in there if entry.kind is Kind.PREFIX]

    def has(self, name: str) -> bool:
        return bool(self.store(name, None).list("", limit=1).entries)

    def is_link(self, name: str) -> bool:
        return False

    def refuse_link(self, name: str) -> None:
        pass

    def remove(self, name: str) -> None:
        self._at(keys.archive(name), "@remove").remove_prefix("")
        self.store(name, "@remove").remove_prefix("")

    def beside(self, folder: str, writer: str | None = None) -> Store:
        return self._at(folder, writer)

    def alone(self, folder: str, writer: str) -> AbstractContextManager[None]:
        raise self._cannot("keep two processes apart that run one study", "run studies in a folder")

    def move(self, name: str, folder: str) -> None:
        raise self._cannot(f"move {name} at once", "run studies in a folder")

    def take_in(self, name: str, fill: Callable[[Path], object]) -> None:
        raise self._cannot(f"take {name} in at once", "copy it")

    def health(self, name: str) -> AbstractContextManager[Health]:
        from swarm.store.bucket.health import bucket_health

        return bucket_health(self._client(), self._url.prefix, f"{EXPERIMENTS}/{name}")

    def store(self, name: str, writer: str | None) -> BucketStore:
        return self._at(f"{EXPERIMENTS}/{name}", writer)

    def _at(self, folder: str, writer: str | None = None) -> BucketStore:
        from swarm.store.bucket.store import BucketStore

        root = "/".join(filter(None, (self._url.prefix, folder)))
        return BucketStore(self._client(), root, self._url.scheme, writer, packs=bool(self._url.compress))

    def _client(self) -> BucketClient:
        from swarm.store.bucket.client import BucketClient

        address = f"{self._url.scheme}://{self._url.bucket}"
        return BucketClient(self._bucket, address, uploads=self._uploads)

    def _cannot(self, what: str, instead: str) -> StoreError:
        return StoreError(f"{self.describe()} is a bucket and cannot {what}: {instead}")
