"""When a node lists the shared place again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from swarm.node.base.context import NodeContext
from swarm.node.base.wake_ups import wake_ups
from swarm.node.process.system import SYSTEM_CLOCK
from swarm.store.memory import MemoryPlace
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.layout import Layout
from tests.unit.node.nodes import WITHIN, make_context

pytestmark = pytest.mark.anyio


class Sleeper:
    """A clock of which nobody ever wakes, but by `wake`."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self._bell = anyio.Event()

    async def sleep(self, seconds: float) -> None:
        self.asked.append(seconds)
        await self._bell.wait()

    def wake(self) -> None:
        self._bell.set()
        self._bell = anyio.Event()


def context(place: MemoryPlace, sleeper: Sleeper, **settings: Any) -> NodeContext:
    clock = replace(SYSTEM_CLOCK, sleep=sleeper.sleep)
    made = make_context(Layout(Path("/nowhere"), "exp"), times=clock, **settings)
    return replace(made, run=Run("exp", place.open("alice")))


@asynccontextmanager
async def listening(ctx: NodeContext) -> AsyncIterator[Any]:
    with anyio.fail_after(WITHIN):
        async with wake_ups(ctx, [keys.PEERS], 30.0) as wakes:
            await wakes.receive()  # at once: what lies there already is to be found
            yield wakes


@pytest.mark.parametrize("watch", ["auto", "off"])
async def test_with_no_hint_at_all_a_node_wakes_after_every_interval_of_its_own_clock(watch: str) -> None:
    sleeper = Sleeper()
    async with listening(context(MemoryPlace(), sleeper, watch=watch)) as wakes:
        for _ in range(3):
            sleeper.wake()
            await wakes.receive()
    assert set(sleeper.asked) == {30.0}


async def test_what_a_peer_writes_below_a_watched_prefix_wakes_at_once() -> None:
    place = MemoryPlace()
    async with listening(context(place, Sleeper())) as wakes:
        await anyio.wait_all_tasks_blocked()
        place.open("bob").put(keys.peer("bob"), b"{}")
        await wakes.receive()


async def test_a_node_that_is_told_not_to_watch_hears_no_hint() -> None:
    place = MemoryPlace()
    async with listening(context(place, Sleeper(), watch="off")) as wakes:
        await anyio.wait_all_tasks_blocked()
        place.open("bob").put(keys.peer("bob"), b"{}")
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(anyio.WouldBlock):
            wakes.receive_nowait()
