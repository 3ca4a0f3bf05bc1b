"""Measures below a prefix of its own what a bucket promises: one winner, whole versions, what is seen when, and speed.

Some hundred requests in all: fractions of a cent.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from swarm.errors import AlreadyThereError, ProtocolError, StoreError
from swarm.store.bucket.client import Client
from swarm.store.bucket.listing import objects
from swarm.store.health import Burst, Creating, Latency, Renaming, Visibility

RACERS = 32
RACES = 2
LARGE = 4 * 2**20
"""Bytes of an object that is replaced while it is read: sent and received in many pieces."""
TYPICAL = 60_000
"""Bytes of a typical rollout file."""
SECONDS = 2.0
"""Seconds of replacing; at least FEWEST are done."""
FEWEST = 3
SEEN_IN = 10.0
"""Seconds for which a write is looked for."""
VISIBLE, SAMPLES = 5, 20
"""Trials of each kind."""
BURST, TOGETHER = 64, 16


class Probe:
    """Keeps where all trials lie."""

    def __init__(self, client: Client, prefix: str) -> None:
        self.client = client
        self.prefix = prefix
        self.names: list[str] = []
        """Names of all objects that may be there."""

    def name(self, last: str) -> str:
        self.names.append(f"{self.prefix}/{last}")
        return self.names[-1]


# ── one winner ──────────────────────────────────────────────────────────────────────────────────────────────────────
def try_creating(probe: Probe) -> Creating:
    """All racers begin at one moment; each who is told that it was first has won."""
    raced = [probe.name(f"raced-{race}") for race in range(RACES)]
    winners = [_race(probe.client, name) for name in raced]
    return Creating(RACERS, winners, _is_first(probe.client, raced[0], b"late"))


def _race(client: Client, name: str) -> int:
    start = threading.Barrier(RACERS)

    def run(racer: int) -> bool:
        start.wait()
        return _is_first(client, name, b"%d" % racer)

    with ThreadPoolExecutor(RACERS) as threads:
        return sum(threads.map(run, range(RACERS)))


def _is_first(client: Client, name: str, data: bytes) -> bool:
    with suppress(AlreadyThereError):
        client.create(name, data, trusting=True)
        return True
    return False


def obeys_if_match(probe: Probe) -> bool:
    """Tells whether a version that is there can be replaced, and one that is not there cannot."""
    client, name = probe.client, probe.name("matched")
    client.put(name, b"old")
    old = client.get(name, 9).tag
    return client.replace(name, b"new", old) and not client.replace(name, b"other", old)


# ── whole versions, seen when ───────────────────────────────────────────────────────────────────────────────────────
def try_replacing(probe: Probe, seconds: float = SECONDS) -> Renaming:
    """Replace a large object while a thread reads it. Every version is one byte value repeated."""
    seen, name, over = Renaming(), probe.name("replaced"), threading.Event()
    probe.client.put(name, bytes(LARGE))
    reader = threading.Thread(target=_read_on, args=(probe.client, name, over, seen), daemon=True)
    reader.start()
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline or seen.renames < FEWEST:
            version = bytes([(seen.renames + 1) % 251]) * LARGE
            probe.client.put(name, version)
            seen.renames += 1
            seen.late += _read(probe.client, name) != version
    except StoreError as error:
        seen.problem = str(error)
    finally:
        over.set()
        reader.join()
    return seen


def _read(client: Client, name: str) -> bytes | None:
    try:
        return client.get(name, 2 * LARGE).data
    except (FileNotFoundError, ProtocolError):
        return None


def _read_on(client: Client, name: str, over: threading.Event, seen: Renaming) -> None:
    while not over.is_set():
        with suppress(StoreError):
            data = _read(client, name)
            seen.reads += data is not None
            seen.missing += data is None
            seen.torn += data is not None and not (len(data) == LARGE and data.count(data[:1]) == LARGE)


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


def _listed(client: Client, prefix: str) -> set[str]:
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


def try_burst(probe: Probe) -> Burst:
    """Write many at once."""
    names, data = [probe.name(f"burst-{number}") for number in range(BURST)], bytes(TYPICAL)
    began = time.monotonic()
    with ThreadPoolExecutor(TOGETHER) as threads:
        problems = [
            problem for problem in threads.map(lambda name: _problem(probe.client, name, data), names) if problem
        ]
    seconds = time.monotonic() - began
    return Burst(BURST, seconds, _first(problems), dict(probe.client.troubles))


def _problem(client: Client, name: str, data: bytes) -> str:
    try:
        client.put(name, data)
    except StoreError as error:
        return str(error)
    return ""


def _first(problems: Sequence[str]) -> str:
    return problems[0] if problems else ""
