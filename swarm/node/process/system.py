"""System clock, and Blocking on the event loop's thread pool."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

import anyio
from anyio import to_thread

from swarm.node.base.context import Clock

P = ParamSpec("P")
Result = TypeVar("Result")

SYSTEM_CLOCK = Clock(
    monotonic=time.monotonic, wall=time.time, sleep=anyio.sleep, move_on_after=lambda delay: anyio.move_on_after(delay)
)


class ThreadBlocking:
    """Runs each blocking call in a thread of the event loop's pool; it implements swarm.node.base.context.Blocking."""

    async def run(self, call: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """Run it and give what it returns or raises; a caller that is cancelled leaves once the call has ended."""
        return await to_thread.run_sync(partial(call, *args, **kwargs))
