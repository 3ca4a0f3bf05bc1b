"""Who sees what of whom, and when: a replicated folder whose replicas are cut off from each other now and then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar


class Partition(NamedTuple):
    """From `start` until `end`, hosts inside and outside see nothing new of each other."""

    start: float
    end: float
    inside: frozenset[str]


class Horizon:
    """Up to which moment one reader has what each writer wrote."""

    __slots__ = ("_cuts", "_reader", "_usual")

    def __init__(self, reader: str, usual: float, cuts: list[Partition]) -> None:
        self._reader = reader
        self._usual = usual
        self._cuts = cuts

    def of(self, writer: str) -> float:
        """Writers see what they wrote themselves at once."""
        if writer == self._reader:
            return float("inf")
        if not self._cuts:
            return self._usual
        reached = self._usual
        for cut in self._cuts:
            if (self._reader in cut.inside) != (writer in cut.inside):
                reached = min(reached, cut.start)
        return reached


class Network:
    """All partitions of a run, known beforehand."""

    def __init__(self) -> None:
        self.partitions: list[Partition] = []

    def horizon(self, reader: str, now: float, delay: float) -> Horizon:
        cuts = [cut for cut in self.partitions if cut.start <= now < cut.end]
        return Horizon(reader, now - delay, cuts)

    def connected_since(self, one: str, other: str, now: float) -> float:
        """Since when two hosts have seen each other without a break; `now` while they do not."""
        since = 0.0
        for cut in self.partitions:
            if cut.start <= now and (one in cut.inside) != (other in cut.inside):
                since = max(since, min(cut.end, now))
        return since


class Written(Protocol):
    """What a log holds."""

    time: float
    writer: str
    gone: bool


Kind = TypeVar("Kind", bound=Written)


class Reader(Generic[Kind]):
    """One reader's way through a log of files: each is seen once, when it has come through."""

    def __init__(self, log: list[Kind]) -> None:
        self._log = log
        self._next = 0
        self._under_way: list[tuple[float, Kind]] = []

    def fresh(self, horizon: Horizon, now: float, lateness: Iterable[float]) -> list[Kind]:
        """What has become visible since the last call.

        Args:
            lateness: seconds by which each further file is late for this reader.
        """
        come: list[Kind] = []
        under_way = []
        for ready, file in self._under_way:
            if file.gone:
                continue
            if ready <= now and file.time <= horizon.of(file.writer):
                come.append(file)
            else:
                under_way.append((ready, file))
        if self._next < len(self._log):
            for file, late in zip(self._log[self._next :], lateness, strict=False):
                if file.gone:
                    continue
                if not late and file.time <= horizon.of(file.writer):
                    come.append(file)
                else:
                    under_way.append((file.time + late, file))
            self._next = len(self._log)
        self._under_way = under_way
        return come
