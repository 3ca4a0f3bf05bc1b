"""Several workers in one process: one event loop, one scorer, one compute thread, one copy of torch.

    worker-0 ─┐ own settings, policy,      ┌▶ compute_thread  the policies' steps, one after the other
    worker-1 ─┼ logs, seeds, registration ─┤
    worker-2 ─┘                            └▶ Scorer          children that all of them ask

They know nothing of each other: what they share they share through the folder, and a reader of it cannot tell.
A node that fails leaves alone; the others are then asked to stop, as `swarm up` does with processes.

One compute thread, on a CPU as well: a second one made no more rounds of 8 nodes of tiny-qwen2 on two cores (46 and 34
per minute against 47 and 43), since both wait for the same interpreter, and takes the memory of two steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import anyio
from anyio import to_thread

from swarm.config import NOBODY, Settings, StartRequest
from swarm.errors import SwarmError
from swarm.logs import logging_as, record_failure
from swarm.node.base.context import NodeContext
from swarm.node.process.daemon import first_swarm_error, log_start, run_logged, run_loop
from swarm.node.process.stopping import TERMINATED, Node, run_until_signal
from swarm.node.process.wiring import check, make_context, worker_maker
from swarm.node.process.worker_settings import settings_of_workers
from swarm.policy.embedded import EMBEDDED
from swarm.provenance import cores

THREADS_PER_NODE = 4
"""Threads of the event loop's helpers: one watches the folder as long as the node lives, the others read and write."""


def run_workers(settings: Settings, nodes: int, asked: StartRequest = NOBODY) -> int:
    """Run several workers in the foreground until all of them have ended.

    Args:
        asked: as of one node.

    Returns:
        Exit code as of one node: 0 all done, 1, 2 or 3 as the first that failed, 130 and 143 stopped by a signal.

    Raises:
        StoreError: the log files cannot be opened, so nothing could be recorded.
    """
    settings = _suited_to_sharing(settings)
    of_workers = settings_of_workers(settings, nodes)
    for worker in of_workers:
        check(worker)
    contexts = [make_context(worker, str(worker.node_id), asked) for worker in of_workers]
    return run_logged(contexts, partial(run_loop, _run, contexts))


def _suited_to_sharing(settings: Settings) -> Settings:
    """Nodes of one thread need no lease to take turns, and have one number of torch's threads for all their models."""
    if settings.device_lease == "auto":
        settings = replace(settings, device_lease="off")
    if settings.threads is None and not set(settings.model) <= set(EMBEDDED):
        settings = replace(settings, threads=cores())
    return settings


async def _run(contexts: Sequence[NodeContext]) -> int:
    to_thread.current_default_thread_limiter().total_tokens += THREADS_PER_NODE * len(contexts)
    async with worker_maker(contexts[0].settings, len(contexts)) as make:
        return await run_until_signal(SeveralNodes({ctx.node_id: partial(_start, make, ctx) for ctx in contexts}))


def _start(make: Callable[[NodeContext], Node], ctx: NodeContext) -> Node:
    log_start(ctx)
    return make(ctx)


class SeveralNodes:
    """Runs nodes side by side, each logging as itself; one of them that fails has the others stop."""

    def __init__(self, start: Mapping[str, Callable[[], Node]]) -> None:
        """`start` makes the node of each id, within its task."""
        self._start = start
        self._running: dict[str, Node] = {}
        self._failure = 0
        self._stop_code: int | None = None

    async def run(self) -> int:
        """Run all of them to their ends; the exit code."""
        async with anyio.create_task_group() as nodes:
            for node_id in self._start:
                nodes.start_soon(self._live, node_id)
        return self._failure or self._stop_code or 0

    def stop(self, exit_code: int) -> None:
        """Ask all nodes to finish their step and save; once is enough."""
        if self._stop_code is not None:
            return
        self._stop_code = exit_code
        for node_id, node in self._running.items():
            with logging_as(node_id):
                node.stop(exit_code)

    async def _live(self, node_id: str) -> None:
        with logging_as(node_id):
            try:
                node = self._running[node_id] = self._start[node_id]()
                if self._stop_code is not None:
                    node.stop(self._stop_code)
                code = await node.run()
                if self._stop_code is None:  # nobody asked it to end, so it is its own
                    self._failure = self._failure or code
            except Exception as error:  # noqa: BLE001 - the boundary of one node; the others save what they learned
                self._fail(node_id, error)
            finally:
                self._running.pop(node_id, None)

    def _fail(self, node_id: str, error: Exception) -> None:
        known = first_swarm_error(error) if isinstance(error, BaseExceptionGroup) else error
        record_failure(known or error)
        self._running.pop(node_id, None)
        self._failure = self._failure or (known.exit_code if isinstance(known, SwarmError) else 1)
        self.stop(TERMINATED)
