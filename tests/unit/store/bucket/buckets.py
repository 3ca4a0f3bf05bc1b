"""A bucket in memory, and handles whose requests can be made to fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import obstore
import obstore.store
import pytest

from swarm.store.bucket.client import BucketClient
from swarm.store.bucket.store import BucketStore

ROOT = "place/experiments/demo"
ADDRESS = "s3://mine"


class MemoryBucket:
    """A bucket that all handles of a test share."""

    def __init__(self) -> None:
        self.objects = obstore.store.MemoryStore()
        self.paused: list[float] = []

    def open(self, writer: str | None = None, *, packs: bool = False) -> BucketStore:
        client = BucketClient(self.objects, ADDRESS, pause=self.paused.append, chance=lambda: 1.0)
        return BucketStore(client, ROOT, writer, packs=packs)

    def names(self, prefix: str = "") -> list[str]:
        """Of all objects, relative to the experiment."""
        found = [meta["path"] for page in obstore.list(self.objects, ROOT) for meta in page]
        return sorted(name.removeprefix(f"{ROOT}/") for name in found if name.startswith(f"{ROOT}/{prefix}"))

    def write(self, key: str, data: bytes) -> None:
        """As a stranger does, who has the bucket's name and no manners."""
        obstore.put(self.objects, f"{ROOT}/{key}", data)

    def read(self, key: str) -> bytes:
        return bytes(obstore.get(self.objects, f"{ROOT}/{key}").bytes())


def error(text: str) -> Exception:
    """What obstore raises of a server's answer."""
    return obstore.exceptions.GenericError(f"Generic S3 error: Error performing PUT http://x/y?sig=SECRET {text}")


BUSY = "- Server returned non-2xx status code: 503 Service Unavailable: <Error><Code>SlowDown</Code></Error>"
CUT = "in 2ms - HTTP error: error sending request"


class Faults:
    """What happens to the next requests of one verb of obstore: fails before, fails after it was done, or nothing."""

    def __init__(self, patch: pytest.MonkeyPatch, verb: str, *plan: tuple[str, str]) -> None:
        self._call: Callable[..., Any] = getattr(obstore, verb)
        self._plan = [*plan]
        patch.setattr(obstore, verb, self._once)

    def _once(self, *args: Any, **kwargs: Any) -> Any:
        when, what = self._plan.pop(0) if self._plan else ("", "")
        if when == "before":
            raise error(what)
        done = self._call(*args, **kwargs)
        if when == "after":
            raise error(what)
        return done
