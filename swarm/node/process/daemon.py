"""A node as a process: run it in the foreground, turn what happened into an exit code.

A coordinator imports no torch, and a worker's is imported by its compute thread.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import SystemRandom
from typing import TypeVar, TypeVarTuple

import anyio

from swarm.config import NOBODY, Settings, StartRequest, variable
from swarm.errors import ConfigError, SwarmError
from swarm.logs import configure_logging, get_logger
from swarm.node.base.context import NodeContext
from swarm.node.process.generator_only import as_it_runs
from swarm.node.process.stopping import run_until_signal
from swarm.node.process.wiring import check, make_context, node_log, remove_empty_logs, worker_maker
from swarm.node.process.worker_settings import readable_name
from swarm.planner.open_files import raise_limit

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
