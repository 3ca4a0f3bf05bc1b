"""Logs the beginning and the end of a lasting problem once each; retries a read until the store answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from swarm.errors import StoreError
from swarm.logs import get_logger
from swarm.node.base.context import NodeContext

P = ParamSpec("P")
Result = TypeVar("Result")

logger = get_logger(__name__)

PAUSE = 2.0
"""Seconds between two attempts."""


class LogOnce:
    """One kind of problem, which comes and goes."""

    def __init__(self, began: str, over: str) -> None:
        """The names of the events that tell of its beginning and of its end."""
        self._began = began
        self._over = over
        self._lasts = False

    def found(self, problem: object) -> None:
        """It is there: a warning, unless it was there already."""
        if not self._lasts:
            logger.warning(self._began, error=str(problem))
        self._lasts = True

    def gone(self) -> None:
        """It is not there, or not any more."""
        if self._lasts:
            logger.info(self._over)
        self._lasts = False


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
