"""What the store's interface costs: one rollout file written, listed and read, through the store and by direct calls.

    direct         publish, list_page and lstat, read_tagged: the calls that a node made before there was a store
    store          FolderStore.put, list with tags, get
    async direct   each of the direct calls in a thread of its own
    async store    FolderStore.put, list with tags, get, each through Blocking.run

Sides take turns within each repetition, and a ratio is that of two medians. Aim: at most 1.05.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
from anyio import to_thread

from benchmarks.common import arguments_of, keep, percentile
from swarm.node.process.system import ThreadBlocking
from swarm.store.base import PAGE
from swarm.store.folder.beneath import Within
from swarm.store.folder.fetch import list_page, read_tagged
from swarm.store.folder.publish import publish
from swarm.store.folder.store import FolderStore
from swarm.types import RoundKey
from swarm.wire import keys

PEERS = 8
LIMIT = 1 << 24


class Sides:
    """The four ways through one folder; each takes a round of its own and gives what it read."""

    def __init__(self, root: Path, size: int) -> None:
        self._at = Within(root)
        self._store = FolderStore(root, "anna")
        self._blocking = ThreadBlocking()
        self._data = json.dumps({"rollouts": "x" * size}).encode()

    def prepare(self, key: RoundKey) -> None:
        for peer in range(PEERS - 1):
            self._store.put(keys.rollout(key, f"peer-{peer}"), self._data, durable=False)

    def _within(self, key: str) -> Within:
        return Within(self._at.root, tuple(key.split("/")))

    def _look(self, folder: Within) -> list[os.stat_result]:
        return [os.lstat((folder / entry.name).path) for entry in list_page(folder, "", PAGE, tags=False).entries]

    async def direct(self, key: RoundKey) -> bytes:
        file = self._within(keys.rollout(key, "anna"))
        publish(file, self._data, self._at / ".tmp" / "anna")
        self._look(file.parent)
        return read_tagged(file, LIMIT).data

    async def store(self, key: RoundKey) -> bytes:
        self._store.put(keys.rollout(key, "anna"), self._data)
        self._store.list(keys.rollouts(key), tags=True)
        return self._store.get(keys.rollout(key, "anna"), LIMIT).data

    async def async_direct(self, key: RoundKey) -> bytes:
        file = self._within(keys.rollout(key, "anna"))
        await to_thread.run_sync(publish, file, self._data, self._at / ".tmp" / "anna")
        await to_thread.run_sync(self._look, file.parent)
        return (await to_thread.run_sync(read_tagged, file, LIMIT)).data

    async def async_store(self, key: RoundKey) -> bytes:
        run = self._blocking.run
        await run(self._store.put, keys.rollout(key, "anna"), self._data)
        await run(self._store.list, keys.rollouts(key), tags=True)
        return (await run(self._store.get, keys.rollout(key, "anna"), LIMIT)).data


async def measure(root: Path, repetitions: int, size: int) -> dict[str, tuple[list[float], list[float]]]:
    """Seconds of wall clock and of this process's CPUs, by side."""
    sides = Sides(root, size)
    ways: list[Callable[[RoundKey], Awaitable[bytes]]] = [
        sides.direct,
        sides.store,
        sides.async_direct,
        sides.async_store,
    ]
    found: dict[str, tuple[list[float], list[float]]] = {way.__name__: ([], []) for way in ways}
    for repetition in range(repetitions):
        for turn in range(len(ways)):
            way, key = ways[(repetition + turn) % len(ways)], RoundKey(repetition * len(ways) + turn)
            sides.prepare(key)
            wall, cpu = time.perf_counter(), time.process_time()
            await way(key)
            found[way.__name__][1].append(time.process_time() - cpu)
            found[way.__name__][0].append(time.perf_counter() - wall)
    return found


def main() -> None:
    """Print the medians and the ratios."""
    parser = arguments_of(__doc__, threads=None)
    parser.add_argument("--path", type=Path, help="folder to measure in (default: a temporary one)")
    parser.add_argument("--bytes", type=int, default=60_000, help="of one rollout file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.path) as folder:
        found = anyio.run(measure, Path(folder), 10 if arguments.quick else 500, arguments.bytes)
    p50 = {side: statistics.median(wall) for side, (wall, _) in found.items()}
    cpu = {side: statistics.median(used) for side, (_, used) in found.items()}
    pairs = (("store", "direct"), ("async_store", "async_direct"))
    keep(
        "publish_to_pool",
        {
            "p50_seconds": p50,
            "p95_seconds": {side: percentile(wall, 0.95) for side, (wall, _) in found.items()},
            "cpu_seconds": cpu,
            "p50_ratio": {new: p50[new] / p50[old] for new, old in pairs},
            "cpu_ratio": {new: cpu[new] / cpu[old] for new, old in pairs},
        },
        arguments,
    )


if __name__ == "__main__":
    main()
