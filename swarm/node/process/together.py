"""Generation of several nodes of one process as one step of the compute thread.

    node a ─ call ─┐                     ┌▶ its completions
    node b ─ call ─┼▶ _Batch ─▶ one step ┼▶ its completions
    node c ─ call ─┘                     └▶ its completions

    waits for      the nodes that took part in its node's last step, a share of that step's length at most;
                   a moment for any other
    unblocked by   the last of them; the end of that time
    still open     until the compute thread is free and begins: whoever asks before is in it

So nodes that begin a round together generate together, a node that is slow or dead costs the others a share of one step
once, and nodes that go at their own pace do not wait for each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from threading import Lock

from swarm.node.base.context import Timed
from swarm.types import BatchingGenerator, GenerationCall, Groups

SHARE = 0.25
"""Share of the length of the last step that companions of it are waited for; who comes later costs a step of its
own."""
MOMENT = 0.03
"""Seconds that anybody else is waited for: nodes that begin a round together ask within some milliseconds."""
FIRST = 2.0
"""Seconds that all nodes are waited for in the first step, in which their questions are made."""
LONGEST = 10.0
"""Seconds; no wait is longer."""


@dataclass(frozen=True, eq=False)
class NodeCall:
    """One node's call."""

    node_id: str
    generator: BatchingGenerator
    call: GenerationCall
    timed: Timed
    """Wraps the step: it is all of its nodes' time."""
    context: Context = field(default_factory=copy_context)
    result: Future[Groups] = field(default_factory=Future)


class Companions:
    """Remembers who generated with whom, and how long that took. Pure."""

    def __init__(self) -> None:
        self._last: dict[str, frozenset[str]] = {}
        self._seconds = 0.0

    def patience(self, present: frozenset[str], nodes: int) -> float:
        """Returns seconds that these wait for others, of so many nodes in all; 0: for nobody."""
        if len(present) >= nodes:
            return 0.0
        if not any(node in self._last for node in present):
            return FIRST
        missing = frozenset().union(*(self._last.get(node, present) for node in present)) - present
        return min(LONGEST, max(MOMENT, self._seconds * SHARE if missing else 0.0))

    def stepped(self, nodes: frozenset[str], seconds: float) -> None:
        """Notes that these nodes have generated in one step."""
        self._seconds = seconds
        self._last.update(dict.fromkeys(nodes, nodes))


@dataclass(eq=False)
class _Batch:
    """Calls that will be one step."""

    asked: list[NodeCall] = field(default_factory=list)
    timer: asyncio.TimerHandle | None = None
    submitted: bool = False

    @property
    def nodes(self) -> frozenset[str]:
        """Returns the nodes whose calls are in the batch."""
        return frozenset(one.node_id for one in self.asked)


class GenerationTogether:
    """Joins generation calls of one process's nodes into single steps; used from the process's event loop."""

    def __init__(self, thread: ThreadPoolExecutor, now: Callable[[], float]) -> None:
        self._thread = thread
        self._now = now
        self._open: dict[Hashable, _Batch] = {}
        self._companions: dict[Hashable, Companions] = {}
        self._lock = Lock()
        """Lock of these two, which the compute thread uses as well."""

    async def generate(self, asked: NodeCall) -> Groups:
        """Generates a node's completions, in one step with others'. A call that is cancelled before the step begins is
        no part of it.

        Raises:
            ModelError: as of its generator.
        """
        key = (asked.generator.batch_key, asked.call.group_size)
        self._add(key, asked)
        return await asyncio.wrap_future(asked.result)

    def _add(self, key: Hashable, asked: NodeCall) -> None:
        with self._lock:
            batch = self._open.setdefault(key, _Batch())
            batch.asked.append(asked)
            if batch.submitted:
                return
            companions = self._companions.setdefault(key, Companions())
            patience = companions.patience(batch.nodes, asked.generator.batch_size)
        if patience == 0.0:
            self._submit(key, batch)
        elif batch.timer is None:
            batch.timer = asyncio.get_running_loop().call_later(patience, self._submit, key, batch)

    def _submit(self, key: Hashable, batch: _Batch) -> None:
        if batch.timer:
            batch.timer.cancel()
        if not batch.submitted:
            batch.submitted = True
            self._thread.submit(self._step, key, batch)

    def _step(self, key: Hashable, batch: _Batch) -> None:
        """Generates, on the compute thread, for all that have asked by now."""
        with self._lock:
            del self._open[key]
        live = [one for one in batch.asked if one.result.set_running_or_notify_cancel()]
        if not live:
            return
        begun = self._now()
        results: Sequence[Groups | Exception]
        try:
            results = live[0].context.run(_generate, live)
        except Exception as error:  # noqa: BLE001 - each node meets it where it waits
            results = [error] * len(live)
        with self._lock:
            self._companions[key].stepped(frozenset(one.node_id for one in live), self._now() - begun)
        for one, result in zip(live, results, strict=True):
            if isinstance(result, Exception):
                one.result.set_exception(result)
            else:
                one.result.set_result(result)


def _generate(asked: list[NodeCall]) -> Sequence[Groups | Exception]:
    with ExitStack() as times:
        for one in asked:
            times.enter_context(one.timed())
        return asked[0].generator.generate_together([(one.generator, one.call) for one in asked])
