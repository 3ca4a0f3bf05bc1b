"""Reading what a node cannot go on without, however long the shared place refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from swarm.errors import StoreError
from swarm.node.base.context import NodeContext
from swarm.node.base.log_once import LogOnce

P = ParamSpec("P")
Result = TypeVar("Result")

PAUSE = 2.0
"""Seconds between two attempts."""


async def until_readable(ctx: NodeContext, read: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
    """What a blocking call gives, once it raises no StoreError any more; anything else that it raises is raised."""
    unreadable = LogOnce("folder.unreadable", over="folder.readable")
    while True:
        try:
            found = await ctx.blocking.run(read, *args, **kwargs)
        except StoreError as error:
            unreadable.found(error)
        else:
            unreadable.gone()
            return found
        await ctx.clock.sleep(PAUSE)
