"""Stores that are seen through something: at some calls something happens beside, or what is read is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from swarm.store.base import Store
from swarm.store.run import Run

READS = ("list", "get", "read_records", "stat")
WRITES = ("put", "append_records", "put_bundle", "remove", "remove_prefix", "sync")


def nothing() -> None:
    """Happens beside most calls."""


class Beside:
    """Passes everything on; before and after each of these calls something else happens, or is raised."""

    def __init__(
        self,
        inner: Store,
        calls: tuple[str, ...],
        before: Callable[[], None] = nothing,
        after: Callable[[], None] = nothing,
    ) -> None:
        self._inner, self._calls, self._before, self._after = inner, calls, before, after

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._inner, name)
        if name not in self._calls:
            return verb

        def call(*args: Any, **kwargs: Any) -> Any:
            self._before()
            result = verb(*args, **kwargs)
            self._after()
            return result

        return call


class Counting:
    """Sees a run's store, and counts the bytes of growing files that it gives; `bytes` may be set to 0."""

    def __init__(self, run: Run) -> None:
        self._store = run.store
        self.bytes = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def read_records(self, key: str, cursor: str = "", limit: int = 0) -> object:
        found = self._store.read_records(key, cursor, limit)
        self.bytes += sum(map(len, found.records))
        return found
