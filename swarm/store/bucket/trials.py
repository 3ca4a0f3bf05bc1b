"""Measures below a prefix of its own what a bucket promises: who came first wins, what is seen when, and speed.

Some hundred requests in all: fractions of a cent.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress

from swarm.errors import AlreadyThereError
from swarm.store.bucket.client import BucketClient
from swarm.store.bucket.listing import objects
from swarm.store.health import Latency, Visibility

TYPICAL = 60_000
"""Bytes of a typical rollout file."""
SEEN_IN = 10.0
"""Seconds for which a write is looked for."""
VISIBLE, SAMPLES = 5, 20
"""Trials of each kind."""


class Probe:
    """Keeps where all trials lie."""

    def __init__(self, client: BucketClient, prefix: str) -> None:
        self.client = client
        self.prefix = prefix
        self.names: list[str] = []
        """Names of all objects that may be there."""

    def name(self, last: str) -> str:
        self.names.append(f"{self.prefix}/{last}")
        return self.names[-1]


def creates_once(probe: Probe) -> bool:
    """Tells whether the server refuses who creates an object that is there."""
    name = probe.name("created")
    return _is_first(probe.client, name) and not _is_first(probe.client, name)


def _is_first(client: BucketClient, name: str) -> bool:
    with suppress(AlreadyThereError):
        client.create(name, b"{}", trusting=True)
        return True
    return False


def try_visibility(probe: Probe) -> Visibility:
    """Write new objects, and look for each until it is there."""
    seen, client = Visibility(), probe.client
    for number in range(VISIBLE):
        name = probe.name(f"seen-{number}")
        client.put(name, b"{}")
        written = time.monotonic()
        seen.read.append(_until(written, lambda name=name: client.head(name) is not None))  # type: ignore[misc]
        seen.listed.append(_until(written, lambda name=name: name in _listed(client, probe.prefix)))  # type: ignore[misc]
    return seen


def _until(since: float, is_there: Callable[[], bool]) -> float:
    """Returns seconds from the write to the look that saw it, 0 where the first one did: what a look takes is latency,
    and so is what was done between the write and that look."""
    if is_there():
        return 0.0
    while (began := time.monotonic() - since) < SEEN_IN:
        if is_there():
            return began
        time.sleep(0.05)
    return math.inf


def _listed(client: BucketClient, prefix: str) -> set[str]:
    return {meta["path"] for meta in objects(client, prefix)}


# ── speed ───────────────────────────────────────────────────────────────────────────────────────────────────────────
def try_latency(probe: Probe) -> Latency:
    """One request after the other, of the size of a rollout file."""
    client, data, found = probe.client, bytes(TYPICAL), Latency()
    for number in range(SAMPLES):
        name = probe.name(f"timed-{number}")
        found.put.append(_timed(lambda name=name: client.put(name, data)))  # type: ignore[misc]
        found.get.append(_timed(lambda name=name: client.get(name, TYPICAL)))  # type: ignore[misc]
        found.list.append(_timed(lambda: _listed(client, probe.prefix)))
    return found


def _timed(request: Callable[[], object]) -> float:
    began = time.monotonic()
    request()
    return time.monotonic() - began
