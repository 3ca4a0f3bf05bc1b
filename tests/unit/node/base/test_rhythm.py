"""Where each look is paid for, pauses grow while nothing changes, and a node that waits for nothing does not look."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import anyio

from swarm.node.base.context import Clock
from swarm.node.base.looking import EARLY, Rhythm

LONGEST, MOST = 10.0, 60.0


class Watched:
    """A clock that notes how long each pause would be, and lets it be over at once."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float | None] = []

    def monotonic(self) -> float:
        return self.now

    @contextmanager
    def move_on_after(self, seconds: float | None) -> Iterator[anyio.CancelScope]:
        self.pauses.append(seconds)
        with anyio.move_on_after(None if seconds is None else 0) as scope:
            yield scope
        self.now += seconds or 0.0


def pauses(looks: int, before: Callable[[Rhythm], None] = lambda rhythm: None) -> list[float | None]:
    clock = Watched()
    rhythm = Rhythm(cast(Clock, clock), MOST)
    before(rhythm)

    async def go() -> None:
        for _ in range(looks):
            await rhythm.sleep(LONGEST)

    anyio.run(go)
    return clock.pauses


def test_pauses_grow_while_nothing_changes_up_to_the_longest() -> None:
    assert pauses(8) == [1.0, 1.5, 2.25, 3.375, 5.0625, 7.59375, LONGEST, LONGEST]


def test_nothing_is_looked_for_before_it_can_be_there() -> None:
    assert pauses(3, lambda rhythm: rhythm.expect(50.0)) == [50.0 * EARLY, 1.0, 1.5]
    assert pauses(2, lambda rhythm: rhythm.expect(100.0)) == [MOST, 100.0 * EARLY - MOST]


def test_news_makes_the_next_look_come_soon() -> None:
    clock = Watched()
    rhythm = Rhythm(cast(Clock, clock), MOST)

    async def go() -> None:
        for _ in range(4):
            await rhythm.sleep(LONGEST)
        rhythm.keep_pace()
        await rhythm.sleep(LONGEST)

    anyio.run(go)
    assert clock.pauses == [1.0, 1.5, 2.25, 3.375, 1.0]


def test_who_rests_does_not_look_until_something_is_waited_for() -> None:
    clock = Watched()
    rhythm = Rhythm(cast(Clock, clock), MOST)
    rhythm.rest()

    async def go() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(rhythm.sleep, LONGEST)
            await anyio.lowlevel.checkpoint()
            assert clock.pauses == [None]
            rhythm.quicken()

    anyio.run(go)
