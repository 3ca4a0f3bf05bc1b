"""NodeContext: settings, run, clock, process identity, and the runners of blocking and compute work.

    Blocking.run ─▶ production: a worker thread      simulation: inline, for some virtual time
    Compute.run  ─▶ production: the compute thread   simulation: inline, for some virtual time
    Clock        ─▶ production: the system's clocks  simulation: the node's own, which may drift, be off or stand still

No part of a node starts a thread, sleeps or reads a clock in any other way; `node/process` wires the real ones.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

from swarm.config import Settings
from swarm.node.base.timeline import Timeline
from swarm.store.base import Blocking
from swarm.store.run import Run
from swarm.types import GenerationCall, Generator, Groups, MemoryUse
from swarm.wire.messages import MadeWith

if TYPE_CHECKING:  # for commands that only look start without it
    from anyio import CancelScope

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
        """Generates completions, in a step of its own or in one step with calls of other nodes.

        Args:
            timed: wraps the step.
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
