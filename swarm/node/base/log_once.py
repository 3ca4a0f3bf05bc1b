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

    def __init__(self, began: str, over: str, patience: float = 0.0) -> None:
        """Args:
        began: the name of the event that tells of its beginning.
        over: the same of its end; what was not said has none.
        patience: seconds of a problem that is not worth a word.
        """
        self._began = began
        self._over = over
        self._patience = patience
        self._since: float | None = None
        self._said = False

    def found(self, problem: object, now: float = 0.0) -> None:
        """Notes that the problem is there, and warns once it has lasted longer than `patience`.

        Args:
            now: seconds of any clock; only a problem with `patience` needs them.
        """
        self._since = now if self._since is None else self._since
        if not self._said and now - self._since >= self._patience:
            logger.warning(self._began, error=str(problem))
            self._said = True

    def gone(self) -> None:
        """Notes that the problem is not there, or not any more."""
        if self._said:
            logger.info(self._over)
        self._since, self._said = None, False


async def until_readable(ctx: NodeContext, read: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
    """Returns what a blocking call gives, and repeats the call while it raises StoreError. Other errors are raised."""
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
