"""A store that counts the bytes of growing files that it gives."""

from __future__ import annotations

from swarm.store.run import Run


class Counting:
    """Sees a run's store; `bytes` may be set to 0."""

    def __init__(self, run: Run) -> None:
        self._store = run.store
        self.bytes = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def read_records(self, key: str, cursor: str = "", limit: int = 0) -> object:
        found = self._store.read_records(key, cursor, limit)
        self.bytes += sum(map(len, found.records))
        return found
