"""When whoever works with a store lists it again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from swarm.store.wake_ups import wake_ups
from swarm.wire import keys
from tests.doubles.memory import MemoryPlace
from tests.patience import PATIENCE

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


@asynccontextmanager
async def listening(place: MemoryPlace, sleeper: Sleeper, *, hints: bool = True, **more: bool) -> AsyncIterator[Any]:
    with anyio.fail_after(PATIENCE):
        async with wake_ups(place.open("alice"), [keys.PEERS], 30.0, sleeper.sleep, hints=hints, **more) as wakes:
            await wakes.receive()  # at once: what lies there already is to be found
            yield wakes


@pytest.mark.parametrize("hints", [True, False])
async def test_with_no_hint_at_all_one_wakes_after_every_interval_of_the_own_clock(hints: bool) -> None:
    sleeper = Sleeper()
    async with listening(MemoryPlace(), sleeper, hints=hints) as wakes:
        for _ in range(3):
            sleeper.wake()
            await wakes.receive()
    assert set(sleeper.asked) == {30.0}


async def test_what_a_peer_writes_below_a_watched_prefix_wakes_at_once() -> None:
    place = MemoryPlace()
    async with listening(place, Sleeper()) as wakes:
        await anyio.wait_all_tasks_blocked()
        place.open("bob").put(keys.peer("bob"), b"{}")
        await wakes.receive()


async def test_who_is_told_not_to_watch_hears_no_hint() -> None:
    place = MemoryPlace()
    async with listening(place, Sleeper(), hints=False) as wakes:
        await anyio.wait_all_tasks_blocked()
        place.open("bob").put(keys.peer("bob"), b"{}")
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(anyio.WouldBlock):
            wakes.receive_nowait()


async def test_where_a_hint_stands_for_the_next_wake_up_one_is_left_out_and_no_more() -> None:
    """A coordinator looked at every heartbeat, and at every tick between two of them."""
    place, sleeper = MemoryPlace(), Sleeper()
    async with listening(place, sleeper, merged=True) as wakes:
        for _ in range(2):
            await anyio.wait_all_tasks_blocked()
            place.open("bob").put(keys.peer("bob"), b"{}")
            await wakes.receive()
            sleeper.wake()
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(anyio.WouldBlock):
                wakes.receive_nowait()
            sleeper.wake()
            await wakes.receive()
