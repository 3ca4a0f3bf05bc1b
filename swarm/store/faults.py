"""Plans what can go wrong in a place that processes share, and keeps what has happened there; seen through FaultyStore.

    put, append ─▶ draft ─▶ inner store ─▶ visible ─▶ durable    Faults.step may raise at each; Faults.kept says what a
                               │                                 power cut leaves of what is not durable yet
                               └─▶ history of the key ─▶ reader  Faults.sees and Faults.stale say which version it gets

`Faults` itself does nothing: subclasses plan what goes wrong.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import anyio

from swarm.store.base import Store

MOST_VERSIONS = 200
"""Versions of one key, before the older half of them is forgotten."""
ANY_SIZE = 2**62


class Killed(BaseException):
    """The process of this handle has ended, and nothing of it goes on."""


class Step(StrEnum):
    """Says how far a write has come."""

    DRAFT = "draft"
    """Nothing that anybody sees."""
    HALF = "half"
    """Half is written, of an append only: a kill here leaves half a record."""
    VISIBLE = "visible"
    """Others may see it; a power cut may take it back."""
    DURABLE = "durable"
    """All; the writer has not heard of it."""


@dataclass(slots=True, eq=False)
class Version:
    """One write, as it went through a handle."""

    number: int
    """Grows from write to write, over all keys."""
    key: str
    writer: str
    time: float
    data: bytes | None
    """None: the key was removed, or is a bundle."""
    tag: str = ""
    appended: int = 0
    """Bytes, of an append; its `data` is no version to be read then."""
    bundle: bool = False

    @property
    def there(self) -> bool:
        """Tells whether it is no removal."""
        return self.data is not None or self.bundle


class Faults:
    """Plans what goes wrong; to be subclassed. Whatever is not overridden goes right."""

    def sees(self, reader: str, version: Version) -> bool:
        """Tells whether a reader has a version of another writer by now. Asked again until it has."""
        return True

    def stale(self, reader: str, key: str) -> int:
        """Returns by how many versions a read is older than what the reader might have; none is older than its own
        last."""
        return 0

    def reads(self, reader: str, key: str) -> None:
        """Is called before a read or listing. Raise StoreError where the place cannot be read."""

    def step(self, writer: str, key: str, step: Step) -> None:
        """Is called in the middle of a write. Raise StoreError (full, read-only, or done and not known to be) or
        Killed."""

    def kept(self, version: Version) -> float:
        """Returns the share of a write not yet durable that outlives a power cut: 1.0 all; of an append also a part."""
        return 0.0

    def hints(self, reader: str) -> Sequence[float]:
        """Returns after how many seconds a hint comes: () never, two of them twice."""
        return (0.0,)

    def reached(self, name: str) -> None:
        """Is called when somebody used the handle of a process that is dead."""


class FaultyPlace:
    """Holds what all handles share: who wrote which version, and when."""

    def __init__(
        self, faults: Faults, now: Callable[[], float], sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    ) -> None:
        self.faults = faults
        self.now = now
        self.sleep = sleep
        self.history: dict[str, list[Version]] = {}
        self.removed: dict[str, set[str]] = {}
        """Prefix -> names that are not there any more; some may see them still."""
        self._unsynced: dict[str, list[Version]] = {}
        self._count = 0

    def note(self, key: str, writer: str, data: bytes | None, tag: str = "", **more: Any) -> None:
        """A write has become visible."""
        self._count += 1
        version = Version(self._count, key, writer, self.now(), data, tag, **more)
        versions = self.history.setdefault(key, [])
        versions.append(version)
        if len(versions) > MOST_VERSIONS:
            del versions[: MOST_VERSIONS // 2]
        prefix, _, name = key.rpartition("/")
        if not version.there:
            self.removed.setdefault(prefix, set()).add(name)
        elif prefix in self.removed:
            self.removed[prefix].discard(name)
        self._unsynced.setdefault(writer, []).append(version)

    def synced(self, writer: str, key: str) -> None:
        """All that this writer wrote at a key is durable."""
        self._unsynced[writer] = [version for version in self._unsynced.get(writer, ()) if version.key != key]

    def cut_power(self, name: str, inner: Store) -> list[Version]:
        """The host of a process lost power: what it had written last, and not made durable, may go; says what went."""
        lost = []
        for version in reversed(self._unsynced.pop(name, [])):
            share = self.faults.kept(version)
            if share < 1.0 and self._undo(version, share, inner):
                lost.append(version)
        return lost

    def _undo(self, version: Version, share: float, inner: Store) -> bool:
        """Put back what was there before, where this can be done and nobody has written since."""
        key, versions = version.key, self.history[version.key]
        if not versions or versions[-1] is not version:
            return False
        before = versions[-2] if len(versions) > 1 else None
        if before is not None and (before.bundle or version.bundle or before.appended > version.appended == 0):
            return False
        versions.pop()
        if version.appended:
            data = inner.get(key, ANY_SIZE).data
            inner.put(key, data[: len(data) - version.appended + int(share * version.appended)])
        elif version.bundle:
            inner.remove_prefix(key)
        elif before is None or before.data is None:
            inner.remove(key)
        else:
            inner.put(key, before.data)
            before.tag = tag_of(inner, key)
        return True


def tag_of(store: Store, key: str) -> str:
    """Returns the tag of what stands at a key, "" if nothing does."""
    entry = store.stat(key)
    return entry.tag if entry else ""
