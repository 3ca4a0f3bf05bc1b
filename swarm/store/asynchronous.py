"""The asynchronous face of a store, for nodes: the verbs of swarm.store.base.Store, awaited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

from anyio.abc import ObjectReceiveStream

from swarm.errors import ProtocolError
from swarm.store.base import MOST_PER_READ, PAGE, Blob, Entry, Facts, Page, Records, Store

P = ParamSpec("P")
Result = TypeVar("Result")


class Blocking(Protocol):
    """Runs a blocking call, off the event loop or for some virtual time."""

    async def run(self, call: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """Run it and give what it returns or raises."""


class AsyncStore:
    """A store whose calls are run by `blocking`; each raises what the store's does.

    Bundles are opened by `store` itself, within a blocking call.
    """

    def __init__(self, store: Store, blocking: Blocking) -> None:
        self.store = store
        self._run = blocking.run

    def describe(self, key: str = "") -> str:
        return self.store.describe(key)

    async def facts(self) -> Facts:
        return await self._run(self.store.facts)

    async def put(self, key: str, data: bytes, *, if_absent: bool = False, durable: bool = True) -> None:
        await self._run(self.store.put, key, data, if_absent=if_absent, durable=durable)

    async def get(self, key: str, limit: int) -> Blob:
        return await self._run(self.store.get, key, limit)

    async def get_many(self, keys: Sequence[str], limit: int) -> list[Blob | ProtocolError | None]:
        return await self._run(self.store.get_many, keys, limit)

    async def get_to_file(self, key: str, target: Path, limit: int) -> None:
        await self._run(self.store.get_to_file, key, target, limit)

    async def stat(self, key: str) -> Entry | None:
        return await self._run(self.store.stat, key)

    async def list(self, prefix: str, *, after: str = "", limit: int = PAGE, tags: bool = False) -> Page:
        return await self._run(self.store.list, prefix, after=after, limit=limit, tags=tags)

    async def put_bundle(self, prefix: str, fill: Callable[[Path], None]) -> None:
        await self._run(self.store.put_bundle, prefix, fill)

    async def append_records(self, key: str, records: Sequence[bytes], *, durable: bool) -> None:
        await self._run(self.store.append_records, key, records, durable=durable)

    async def read_records(self, key: str, cursor: str = "", limit: int = MOST_PER_READ) -> Records:
        return await self._run(self.store.read_records, key, cursor, limit)

    async def sync(self, key: str) -> None:
        await self._run(self.store.sync, key)

    async def recover(self) -> None:
        await self._run(self.store.recover)

    async def remove(self, key: str) -> None:
        await self._run(self.store.remove, key)

    async def remove_prefix(self, prefix: str) -> None:
        await self._run(self.store.remove_prefix, prefix)

    def hints(self, prefixes: Sequence[str], interval: float) -> AbstractAsyncContextManager[ObjectReceiveStream[None]]:
        return self.store.hints(prefixes, interval)
