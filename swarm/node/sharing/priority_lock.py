"""A lock for one at a time: the lowest rank gets it next, and among equals who asked first.

waits for   the one at work to end, or to let others go first between two parts of its work
unblocks    the waiting one of the lowest rank
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import anyio


class PriorityLock:
    """A lock whose waiting line is ordered."""

    def __init__(self) -> None:
        self._taken = False
        self._line: list[tuple[int, int, anyio.Event]] = []
        self._numbers = count()

    @asynccontextmanager
    async def hold(self, rank: int) -> AsyncIterator[None]:
        """Wait for a turn; it ends with the block."""
        await self._take(rank)
        try:
            yield
        finally:
            self._give()

    async def let_others_first(self, rank: int) -> None:
        """Lets those of a lower rank go first, within a turn; if `rank` is worse than it was, so do more of them."""
        if self._line and self._line[0][0] < rank:
            self._give()
            with anyio.CancelScope(shield=True):  # the block that holds the turn ends by giving it back
                await self._take(rank)
            await anyio.lowlevel.checkpoint_if_cancelled()

    async def _take(self, rank: int) -> None:
        if not self._taken:
            self._taken = True
            return
        called = anyio.Event()
        place = (rank, next(self._numbers), called)
        heapq.heappush(self._line, place)
        try:
            await called.wait()
        except BaseException:
            if called.is_set():
                self._give()
            else:
                self._line.remove(place)
                heapq.heapify(self._line)
            raise

    def _give(self) -> None:
        if self._line:
            heapq.heappop(self._line)[2].set()
        else:
            self._taken = False
