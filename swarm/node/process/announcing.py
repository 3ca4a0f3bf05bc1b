"""A node's registration while it waits for somebody to begin its experiment.

    no experiment yet ──▶ registered, beating from a thread ──▶ experiment.json is there ──▶ goodbye; the node registers

So a coordinator that begins the experiment counts those who already wait from its first look on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from anyio.from_thread import start_blocking_portal

from swarm.config import Settings
from swarm.node.base.presence import Presence
from swarm.node.process.wiring import make_context


@contextmanager
def announced(settings: Settings) -> Iterator[None]:
    """Hold the registration of a worker that has its name for the block.

    Raises:
        DuplicateNodeError: a live process has the name.
        StoreError: the folder cannot be written.
    """
    assert settings.node_id is not None, "who is registered has a name"
    presence = Presence(make_context(settings, settings.node_id), settings.registered_role)
    with start_blocking_portal() as portal:
        portal.call(presence.register)
        beats = portal.start_task_soon(presence.keep_beating)
        try:
            yield
        finally:  # after Ctrl-C, too
            beats.cancel()
            portal.call(presence.leave)
