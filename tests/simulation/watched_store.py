"""A host's handle on the simulated place: faulty, and watched by the laws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from swarm.store.base import Blob, Store
from swarm.wire import keys
from tests.doubles.faulty import FaultyStore

if TYPE_CHECKING:
    from tests.simulation.hosts import Host

_MAY_LAND_LATE = (keys.STATE, keys.ROLLOUTS, keys.REWARDS, keys.PEERS, keys.WINNERS)


class WatchedStore(FaultyStore):
    """Of one life."""

    def __init__(self, host: Host) -> None:
        world = host.world
        super().__init__(world.place, world.memory.open(host.name), host.name)
        self._host = host
        self._world = world
        self.state_read: Blob | None = None
        """The state file as this life read it last; None: something else stood in its place."""

    def sees(self, key: str) -> bytes | None:
        """What this host has of a key now."""
        version = self._seen(key)
        return None if version is None else version.data

    def get(self, key: str, limit: int) -> Blob:
        if key == keys.STATE:
            self.state_read = None
        blob = super().get(key, limit)
        if key == keys.STATE:
            self.state_read = blob
        return blob

    def put(self, key: str, data: bytes, *, if_absent: bool = False, durable: bool = True) -> None:
        strike = self._host.strike
        if (
            strike
            and strike.kind == "pause"
            and not if_absent
            and key.startswith(_MAY_LAND_LATE)
            and self._host.disk_works
            and self._host.strikes()
        ):
            self._host.land_later(lambda: self._put(key, data, if_absent=if_absent, durable=durable))
        else:
            self._put(key, data, if_absent=if_absent, durable=durable)

    def _put(self, key: str, data: bytes, *, if_absent: bool, durable: bool) -> None:
        laws = self._world.laws
        laws.writes(self._host, key)
        laws.puts(self._host, key, data)
        super().put(key, data, if_absent=if_absent, durable=durable)
        self._world.note(self._name, "put", key, crc32(data))
        laws.has_put(self._host, key, data, durable=durable)

    def sync(self, key: str) -> None:
        super().sync(key)
        self._world.laws.has_synced(self._host, key)

    def put_bundle(self, prefix: str, fill: Callable[[Path], None]) -> None:
        self._world.laws.writes(self._host, prefix)
        super().put_bundle(prefix, fill)
        self._world.laws.saves(self._host, prefix)
        self._world.note(self._name, "bundle", prefix)

    def append_records(self, key: str, records: Sequence[bytes], *, durable: bool, once: bool = True) -> None:
        laws = self._world.laws
        laws.writes(self._host, key)
        laws.appends(self._host, key, records)
        super().append_records(key, records, durable=durable, once=once)
        self._world.note(self._name, "append", key, crc32(b"\n".join(records)))

    def remove(self, key: str) -> None:
        self._world.laws.removes(self._host, key)
        super().remove(key)
        self._world.note(self._name, "remove", key)

    def remove_prefix(self, prefix: str) -> None:
        self._world.laws.removes(self._host, prefix)
        super().remove_prefix(prefix)
        self._world.note(self._name, "remove", prefix)


class Below:
    """What lies below a prefix of a store, as a store of its own: an archive, which lies beside its experiment."""

    def __init__(self, store: Store, prefix: str) -> None:
        self._store, self._prefix = store, prefix

    def _at(self, key: str) -> str:
        return f"{self._prefix}/{key}" if key else self._prefix

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)
        return call if name == "recover" else lambda key="", *args, **kwargs: call(self._at(key), *args, **kwargs)
