"""One node, or several, as a process: run in the foreground, with an exit code that says what happened.

A coordinator imports no torch, and a worker's is imported by its compute thread.

run_workers has several workers in one process: one event loop, one scorer, one compute thread, one copy of torch.

    worker-0 ─┐ own settings, policy,      ┌▶ compute_thread  the policies' steps, one after the other
    worker-1 ─┼ logs, seeds, registration ─┤
    worker-2 ─┘                            └▶ Scorer          children that all of them ask

They know nothing of each other: what they share they share through the folder, and a reader of it cannot tell.
A node that fails leaves alone; the others are then asked to stop, as `swarm up` does with processes.

One compute thread, on a CPU as well: a second one made no more rounds of 8 nodes of tiny-qwen2 on two cores (46 and 34
per minute against 47 and 43), since both wait for the same interpreter, and takes the memory of two steps.

announced registers a node while it waits for somebody to begin its experiment.

    no experiment yet ──▶ registered, beating from a thread ──▶ experiment.json is there ──▶ goodbye; the node registers

So a coordinator that begins the experiment counts those who already wait from its first look on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from random import SystemRandom
from typing import TypeVar, TypeVarTuple

import anyio
from anyio import to_thread
from anyio.from_thread import start_blocking_portal

from swarm.config import NOBODY, Settings, StartRequest, variable
from swarm.errors import ConfigError, SwarmError
from swarm.logs import configure_logging, get_logger, logging_as, record_failure
from swarm.node.base.context import NodeContext
from swarm.node.base.presence import Presence
from swarm.node.process.generator_only import as_it_runs
from swarm.node.process.system import TERMINATED, Node, run_until_signal
from swarm.node.process.wiring import check, make_context, node_log, remove_empty_logs, worker_maker
from swarm.node.process.worker_settings import readable_name, settings_of_workers
from swarm.node.worker.features import plugin_hooks_of
from swarm.planner.open_files import raise_limit
from swarm.policy.embedded import EMBEDDED
from swarm.provenance import cores

Given = TypeVarTuple("Given")
Result = TypeVar("Result")
logger = get_logger(__name__)


def run_node(settings: Settings, asked: StartRequest = NOBODY) -> int:
    """Run one node in the foreground until it ends.

    Args:
        asked: the command that started it, and where its settings came from, for the record.

    Returns:
        Exit code: 0 done, 1 failed, 2 refused, 3 its rounds were over when it came, 130 and 143 stopped by a signal.

    Raises:
        ConfigError: the settings cannot work, or it is to sign, and there is no key. Nothing was written.
        StoreError: the log files cannot be opened, so nothing could be recorded.
    """
    if settings.role == "person":
        raise ConfigError(f"{variable('role')}: a person answers at a terminal, which `swarm answer` starts alone")
    check(settings)
    settings = as_it_runs(settings)
    return run_as(settings, _coordinate if settings.role == "coordinator" else _work, asked)


def run_as(settings: Settings, live: Callable[[NodeContext], Awaitable[int]], asked: StartRequest = NOBODY) -> int:
    """Run one node whose settings were checked, as run_node does.

    Args:
        live: its life, from its context to its exit code.
    """
    ctx = make_context(settings, settings.node_id or _made_up_name(settings), asked)
    return run_logged([ctx], partial(_run, ctx, live))


def run_logged(contexts: Sequence[NodeContext], main: Callable[[], int]) -> int:
    """Run the nodes of this process, all events going to their logs; the exit code. Raises as `run_node` does.

    A node that was refused before it had its name leaves no log.
    """
    raise_limit()
    files, level = [node_log(ctx) for ctx in contexts], contexts[0].settings.log_level
    try:
        with configure_logging(files, level=level, held=True):
            return main()
    except SwarmError as error:
        return error.exit_code  # it is in the logs, on the terminal and in the folder
    finally:
        for ctx in contexts:
            remove_empty_logs(ctx.run, ctx.node_id)


def _made_up_name(settings: Settings) -> str:
    """The clock's owner has a name that says so; those who stand by are several."""
    if settings.role != "coordinator":
        return readable_name(SystemRandom())
    return f"coordinator-{readable_name(SystemRandom())}" if settings.standby else "coordinator"


def _run(ctx: NodeContext, live: Callable[[NodeContext], Awaitable[int]]) -> int:
    log_start(ctx)
    return run_loop(live, ctx)


def run_loop(main: Callable[[*Given], Awaitable[Result]], *given: *Given) -> Result:
    """Run the event loop. Raises the deliberate error that ended it, out of its task groups."""
    try:
        return anyio.run(main, *given)
    except BaseExceptionGroup as group:
        raise first_swarm_error(group) or group from None


def first_swarm_error(group: BaseExceptionGroup[BaseException]) -> SwarmError | None:
    """Returns the deliberate error inside what a task group raised, None if there is anything else in it."""
    expected, other = group.split(SwarmError)
    if expected is None or other is not None:
        return None
    found: BaseException = expected
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, SwarmError)
    return found


def log_start(ctx: NodeContext) -> None:
    """A node's first event."""
    path = ctx.settings.place
    logger.info("node.starting", role=ctx.settings.role, path=path, pid=ctx.process.pid, **ctx.versions)


async def _coordinate(ctx: NodeContext) -> int:
    from swarm.node.coordinator.coordinator import Coordinator

    return await run_until_signal(Coordinator(ctx))


async def _work(ctx: NodeContext) -> int:
    async with worker_maker(ctx.settings) as make:
        return await run_until_signal(make(ctx))


THREADS_PER_NODE = 4
"""Threads of the event loop's helpers: one watches the folder as long as the node lives, the others read and write."""


def run_workers(settings: Settings, numbers: range, asked: StartRequest = NOBODY) -> int:
    """Run several workers in the foreground until all of them have ended.

    Args:
        numbers: numbers of the workers.
        asked: as of one node.

    Returns:
        Exit code as of one node: 0 all done, 1, 2 or 3 as the first that failed, 130 and 143 stopped by a signal.

    Raises:
        StoreError: the log files cannot be opened, so nothing could be recorded.
    """
    settings = _suited_to_sharing(settings)
    of_workers = settings_of_workers(settings, numbers)
    for worker in of_workers:
        check(worker)
    contexts = [make_context(worker, str(worker.node_id), asked) for worker in of_workers]
    return run_logged(contexts, partial(run_loop, _run_all, contexts))


def _suited_to_sharing(settings: Settings) -> Settings:
    """Nodes of one thread need no lease to take turns, and have one number of torch's threads for all their models."""
    if settings.device_lease == "auto":
        settings = replace(settings, device_lease="off")
    if settings.threads is None and not set(settings.model) <= set(EMBEDDED):
        settings = replace(settings, threads=cores())
    return settings


async def _run_all(contexts: Sequence[NodeContext]) -> int:
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


@contextmanager
def announced(settings: Settings) -> Iterator[None]:
    """Hold the registration of a worker that has its name for the block; after Ctrl-C it says goodbye, too.

    Raises:
        DuplicateNodeError: a live process has the name.
        StoreError: the folder cannot be written.
    """
    assert settings.node_id is not None, "who is registered has a name"
    ctx = make_context(settings, settings.node_id)
    presence = Presence(ctx, settings.registered_role, changes=plugin_hooks_of(ctx).registration)
    registered = Future[None]()
    with start_blocking_portal() as portal:
        over = portal.call(anyio.Event)
        life = portal.start_task_soon(_stay, presence, registered, over)
        try:
            wait({registered, life}, return_when=FIRST_COMPLETED)
            if not life.done():
                yield
        finally:
            portal.call(over.set)
            _see_the_end(life)


def _see_the_end(life: Future[None]) -> None:
    """Raises what ended the registration: another process took the name, say."""
    try:
        life.result()
    except BaseExceptionGroup as group:
        raise first_swarm_error(group) or group from None


async def _stay(presence: Presence, registered: Future[None], over: anyio.Event) -> None:
    async with presence.held(), anyio.create_task_group() as tasks:
        registered.set_result(None)
        tasks.start_soon(presence.keep_beating)
        await over.wait()
        tasks.cancel_scope.cancel()
