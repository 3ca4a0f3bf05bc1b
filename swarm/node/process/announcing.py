"""A node's registration while it waits for somebody to begin its experiment.

    no experiment yet ──▶ registered, beating from a thread ──▶ experiment.json is there ──▶ goodbye; the node registers

So a coordinator that begins the experiment counts those who already wait from its first look on.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager

import anyio
from anyio.from_thread import start_blocking_portal

from swarm.config import Settings
from swarm.node.base.presence import Presence
from swarm.node.process.daemon import first_swarm_error
from swarm.node.process.wiring import make_context
from swarm.node.worker.features import plugin_hooks_of


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
