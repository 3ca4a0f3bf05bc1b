"""How a node looks at its place: when (Rhythm), and what it says of a place that does not answer (LogOnce).

LogOnce logs the beginning and the end of a lasting problem once each; until_readable looks until the place answers.

Rhythm decides when a node looks at a place that charges for every look.

    something changed ─▶ pause SHORTEST ─▶ x GROWTH ─▶ ... ─▶ the longest          (looks, while somebody waits)
    expect            ─▶ none before the first thing can be there, by what the round before took
    rest              ─▶ none until it is quickened                                (the node computes)

A folder is listed every interval and hints wake its readers; there this is not used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import anyio

from swarm.errors import StoreError
from swarm.logs import get_logger
from swarm.node.base.context import Clock, NodeContext

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


SHORTEST = 1.0
"""Seconds between two looks when something has just changed."""
GROWTH = 1.5
EARLY = 0.9
"""Share of the time that it took before: from then on it is looked for."""


class Rhythm:
    """Pauses between looks; `sleep` stands in for Clock.sleep."""

    def __init__(self, clock: Clock, most: float) -> None:
        """`most`: seconds without a look, whatever is expected."""
        self._clock = clock
        self._most = most
        self._pause = SHORTEST
        self._due = -math.inf
        self._resting = False
        self._quickened = anyio.Event()

    def quicken(self) -> None:
        """Something is waited for from now on: look at once, and soon again."""
        self._pause, self._resting = SHORTEST, False
        self._quickened.set()

    def keep_pace(self) -> None:
        """A look has found something new: the next ones come soon."""
        self._pause = SHORTEST

    def expect(self, seconds: float) -> None:
        """Expects something after so many seconds, as long as it took the last time."""
        self._pause, self._due = SHORTEST, self._clock.monotonic() + EARLY * seconds

    def rest(self) -> None:
        """Rests: nobody waits for anything, so there are no looks until it is quickened."""
        self._resting = True

    async def sleep(self, longest: float) -> None:
        """Sleeps until the next look is due, at most so many seconds unless nothing can be there; resting, until
        quickened."""
        with self._clock.move_on_after(None if self._resting else self._next(longest)):
            await self._quickened.wait()
        self._quickened = anyio.Event()

    def _next(self, longest: float) -> float:
        ahead = self._due - self._clock.monotonic()
        if ahead > SHORTEST:
            return min(ahead, self._most)
        pause = min(self._pause, longest)
        self._pause = min(pause * GROWTH, longest)
        return pause
