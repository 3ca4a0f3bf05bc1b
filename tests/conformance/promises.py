"""What every store promises, one function per promise or part of one; each fails by an AssertionError.

The functions are in writing.py and reading.py. The suite runs them on every store (test_stores), and on stores that
break a promise (test_broken_stores).
"""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from swarm.errors import ProtocolError, StoreError
from swarm.store.base import Store
from tests.conformance.worlds import World

Check = Callable[[World, Path], None]
PROMISES: dict[str, list[Check]] = defaultdict(list)
"""The names are those of the contract's docstring, and `readers` and `errors`, which it states below them."""

BIG = 1 << 24
KEY = "rollouts/round_3/stage_0/anna.json"
BUNDLE = "checkpoints/round_5/anna"
LOG = "logs/anna/metrics.jsonl"
ODD = ("fifo", "link", "socket", "folder")
IN_THE_WAY = (*ODD, "hard link")


def promise(name: str) -> Callable[[Check], Check]:
    def add(check: Check) -> Check:
        PROMISES[name].append(check)
        return check

    return add


def names(store: Store, prefix: str) -> list[str]:
    return [entry.name for entry in store.list(prefix).entries]


def reading(store: Store, key: str) -> bytes | None:
    with suppress(FileNotFoundError):
        return store.get(key, BIG).data
    return None


def filled(**files: bytes) -> Callable[[Path], None]:
    def fill(folder: Path) -> None:
        (folder / "model").mkdir()
        for name, data in files.items():
            (folder / "model" / name).write_bytes(data)
            (folder / name).write_bytes(data)

    return fill


def content(store: Store, prefix: str) -> dict[str, bytes]:
    with store.open_bundle(prefix) as folder:
        files = [path for path in sorted(folder.rglob("*")) if not path.is_dir()]
        assert not any(path.is_symlink() for path in files)
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def refused(reason: str, attempt: Callable[[], object]) -> None:
    error = fails(ProtocolError, attempt)
    assert isinstance(error, ProtocolError)
    assert error.reason == reason, f"expected {reason}, got {error}"


def fails(kind: type[BaseException], attempt: Callable[[], object]) -> BaseException:
    try:
        attempt()
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}")


def succeeds(attempt: Callable[[], object]) -> None:
    try:
        attempt()
    except StoreError as error:
        raise AssertionError(f"refused: {error}") from error


def while_writing(write: Callable[[int], object], look: Callable[[], object], changes: int) -> None:
    """Write version after version in a thread, until looking gave so many different ones. Raises what it raises."""
    done = threading.Event()

    def writing() -> None:
        for version in range(50_000):
            if done.is_set():
                return
            write(version)

    with ThreadPoolExecutor(1) as threads:
        writer = threads.submit(writing)
        try:
            seen = None
            while changes and not writer.done():
                now = look()
                changes -= now != seen
                seen = now
        finally:
            done.set()
        writer.result()


def soon(store: Store, holds: Callable[[], bool]) -> bool:
    """Whether it holds as soon as a reader has to see it."""
    give_up = math.inf
    while not holds():
        if give_up is math.inf:
            give_up = time.monotonic() + 1.0
        elif time.monotonic() > give_up:
            return False
    return True
