"""Measures a bucket's health: it is tried out below a prefix of its own.

Trials of what a bucket promises (who came first wins, what is seen when) and of its speed are some hundred requests in
all: fractions of a cent.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from swarm.errors import AlreadyThereError, ProtocolError, StoreError
from swarm.store.bucket.listing import is_odd, objects
from swarm.store.bucket.objects import Objects
from swarm.store.bucket.store import BucketStore
from swarm.store.health import MOST_ENTRIES, BucketHealth, Permission, Survey
from swarm.wire import keys

PREFIX = "doctor-"


@contextmanager
def bucket_health(client: Objects, prefix: str, experiment: str) -> Iterator[BucketProbe]:
    """The health of a bucket, and of an experiment in it, for the block.

    What is tried out lies in the experiment's `.tmp`, or beside the experiments where it is not there yet.
    """
    root = "/".join(filter(None, (prefix, experiment)))
    there, problem = False, ""
    try:
        there = next(objects(client, root), None) is not None
    except StoreError as error:
        problem = str(error)
    own = f"{root}/{keys.DRAFTS}/" if there else f"{prefix}/.swarm-" if prefix else ".swarm-"
    probe = f"{own}{PREFIX}{uuid.uuid4().hex}"
    health = BucketProbe(client, probe, root, there=there, unlistable=problem)
    try:
        yield health
    finally:
        with suppress(StoreError):  # who may not remove was told so
            client.delete(health.tried)
            client.clear(probe)  # where a prefix is a folder, that is left


class BucketProbe(BucketHealth):
    """Measures a bucket, beside names of its own for what is tried out."""

    def __init__(self, client: Objects, probe: str, root: str, *, there: bool, unlistable: str = "") -> None:
        """Tries out at once what may be done.

        Args:
            probe: where nothing is yet.
            root: of the experiment.
            unlistable: why the place cannot be listed; empty if it can.
        """
        self._client = client
        self._probe = probe
        self._root = root
        self.trial = BucketStore(client, probe, "doctor")
        self.tried: list[str] = []
        """Names of all objects that may be there by these trials."""
        self.there = there
        self.permissions: Sequence[Permission] = self._allowed(unlistable)
        self.problem = next((allowed.problem for allowed in self.permissions if allowed.problem), "")

    def _name(self, last: str) -> str:
        self.tried.append(f"{self._probe}/{last}")
        return self.tried[-1]

    def _allowed(self, unlistable: str) -> list[Permission]:
        """Each by itself: who may not write may read, and the other way round."""
        client, name = self._client, self._name("allowed")
        tried = [Permission("list", unlistable)]
        attempts: tuple[tuple[str, Callable[[], object]], ...] = (
            ("put", lambda: client.put(name, b"{}")),
            ("get", lambda: client.head(name) and client.get(name, 9)),
            ("delete", lambda: client.delete([name])),
        )
        for what, attempt in attempts:
            try:
                attempt()
                tried.append(Permission(what, ""))
            except (StoreError, ProtocolError) as error:
                tried.append(Permission(what, str(error)))
        return tried

    def creates_once(self) -> bool:
        """Tells whether who creates an object that is there is refused."""
        name = self._name("created")
        return self._is_first(name) and not self._is_first(name)

    def _is_first(self, name: str) -> bool:
        with suppress(AlreadyThereError):
            self._client.create(name, b"{}", trusting=True)
            return True
        return False

    def written_now(self) -> float:
        """A bucket dates objects to the second: half of one is the error, beside half the time of the write."""
        name = self._name("time")
        self._client.put(name, b"now")
        return self._dated(name) + 0.5

    def written_at(self, key: str) -> float:
        with suppress(StoreError, ProtocolError):
            return self._dated(f"{self._root}/{key}")
        return 0.0

    def _dated(self, name: str) -> float:
        found = self._client.head(name)
        return math.floor(found["last_modified"].timestamp()) if found else 0.0

    def survey(self) -> Survey:
        found, number = Survey(), 0
        for page in self._client.pages(self._root, ""):
            for meta in page:
                below = meta["path"].removeprefix(f"{self._root}/")
                if is_odd(below):
                    found.not_text.append(below.encode("utf-8", "backslashreplace").decode())
                elif not below.startswith(f"{keys.DRAFTS}/{PREFIX}"):
                    part, inside, _ = below.partition("/")
                    found.bytes_by_part[part if inside else "experiment"] += meta["size"]
                    found.files_by_part[part if inside else "experiment"] += 1
            number += len(page)
            if number >= MOST_ENTRIES:
                found.complete = False
                break
        return found
