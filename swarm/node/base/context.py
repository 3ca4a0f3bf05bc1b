"""What every part of a node uses: settings, run, clock, process identity, the runners of blocking and compute work.

    Blocking.run ─▶ production: a worker thread      simulation: inline, for some virtual time
    Compute.run  ─▶ production: the compute thread   simulation: inline, for some virtual time
    Clock        ─▶ production: the system's clocks  simulation: the node's own, which may drift, be off or stand still

No part of a node starts a thread, sleeps or reads a clock in any other way; `node/process` wires the real ones.

Timeline holds intervals of an activity, with union and overlap. Pure.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

from swarm.config import Settings
from swarm.store.base import Blocking
from swarm.store.run import Run
from swarm.types import GenerationCall, Generator, Groups, MemoryUse
from swarm.wire.messages import MadeWith

if TYPE_CHECKING:
    from anyio import CancelScope

Interval = tuple[float, float]


class Timeline:
    """Collects the intervals of one kind of activity; several may run at once."""

    def __init__(self, now: Callable[[], float], lock: AbstractContextManager[object] | None = None) -> None:
        """`lock`: where another thread writes than reads."""
        self._now = now
        self._closed: list[Interval] = []
        self._open: dict[int, float] = {}
        self._last = 0
        self._lock = lock or nullcontext()

    @contextmanager
    def running(self) -> Iterator[None]:
        """The activity goes on while the block runs."""
        with self._lock:
            self._last += 1
            ticket = self._last
            self._open[ticket] = self._now()
        try:
            yield
        finally:
            with self._lock:
                self._closed.append((self._open.pop(ticket), self._now()))

    def since(self, start: float) -> list[Interval]:
        """Returns all that happened from `start` on, cut there; what still runs ends now."""
        with self._lock:
            now = self._now()
            intervals = [*self._closed, *((begun, now) for begun in self._open.values())]
        return merge([(max(a, start), b) for a, b in intervals if b > start])

    def forget_before(self, start: float) -> None:
        """Drop what ended before; a daemon runs for weeks."""
        with self._lock:
            self._closed = [interval for interval in self._closed if interval[1] >= start]


def merge(intervals: list[Interval]) -> list[Interval]:
    """Disjoint intervals in order that cover the same time."""
    merged: list[Interval] = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def coarse(intervals: list[Interval], most: int) -> list[Interval]:
    """Joins disjoint intervals in order until they are at most so many: those with the least time between them become
    one."""
    found = list(intervals)
    while len(found) > most:
        gaps = [later[0] - earlier[1] for earlier, later in pairwise(found)]
        at = gaps.index(min(gaps))
        found[at : at + 2] = [(found[at][0], found[at + 1][1])]
    return found


def total(intervals: list[Interval]) -> float:
    """Returns seconds covered by disjoint intervals."""
    return sum(end - begin for begin, end in intervals)


def overlap(left: list[Interval], right: list[Interval]) -> float:
    """Returns seconds covered by both; each side disjoint."""
    return sum(max(0.0, min(b, d) - max(a, c)) for a, b in left for c, d in right)


P = ParamSpec("P")
Result = TypeVar("Result")


Timed = Callable[[], AbstractContextManager[None]]
"""Wraps a step that is measured."""


@dataclass(frozen=True)
class Clock:
    """The times of one node. Nothing in a node reads, waits or gives up by any other."""

    monotonic: Callable[[], float]
    """Seconds for durations and deadlines; comparable within this process alone."""
    wall: Callable[[], float]
    """Unix seconds for what people and peers read."""
    sleep: Callable[[float], Awaitable[None]]
    """Wait for some seconds of `monotonic`."""
    move_on_after: Callable[[float | None], AbstractContextManager[CancelScope]]
    """Leave the block after some seconds of `monotonic`; None: never."""


class Compute(Protocol):
    """Runs one step of generation or training at a time, in the order of asking, off the event loop."""

    @property
    def busy(self) -> Timeline:
        """Returns when it worked for this node."""

    async def run(self, step: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """Run it and give what it returns or raises. Cancelled or not, a step ends before the next begins."""

    async def generate(
        self,
        generator: Generator,
        call: GenerationCall,
        timed: Timed = nullcontext,
    ) -> Groups:
        """Generates completions: in a step of its own, in one step with calls of other nodes, or elsewhere, in no step.

        Args:
            timed: wraps the step, or the wait for those that are written elsewhere.
        """

    def tell(self, call: Callable[[], None]) -> None:
        """Has the event loop make a call, from within a step, in the order of asking, and before `run` returns."""


def generate_now(generator: Generator, call: GenerationCall, timed: Timed = nullcontext) -> Groups:
    """Generates completions at once, within the caller's step."""
    with timed():
        return generator.generate(call.prompts, group_size=call.group_size, seed=call.seed, ready=call.ready)


@dataclass(frozen=True)
class ProcessIdentity:
    """Says which process on which machine a node runs in; peers see it in the node's registration."""

    host: str
    """Equal only where process ids mean the same processes: machine, boot and process namespace."""
    pid: int
    started_at: float
    """Tells it from a later process of the same id."""
    incarnation: str
    """Random; tells two lives of one node apart."""
    secret: bytes
    """Random and told to nobody: for what peers must not foresee."""
    is_running: Callable[[int, float], bool]
    """Whether the process of this host with that id is still the one that started then."""


@dataclass(frozen=True)
class NodeContext:
    """Holds what every part of one node uses for the node's life: settings, run, clock, and ways to block and to
    compute."""

    settings: Settings
    node_id: str
    run: Run
    """The experiment: its store, opened with this node as its writer, and its signatures."""
    clock: Clock
    blocking: Blocking
    process: ProcessIdentity
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of the libraries on which the figures of a run depend."""
    process_memory: Callable[[], MemoryUse | None] = lambda: None
    """What this process holds of the machine's memory; None: nobody knows."""
    kept: str = ""
    """Path of where it keeps its last state if the place takes no more, of this user and machine; empty: nowhere."""
    made_with: Callable[[], MadeWith] = MadeWith
    """What it was started with besides its settings, for the record. Blocking: reads the code and the model's files."""
