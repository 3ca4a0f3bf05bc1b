"""Where each look is paid for, pauses grow while nothing changes; and what is said of a place that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import anyio
import pytest
from structlog.testing import capture_logs

from swarm.errors import ProtocolError, StoreError
from swarm.node.base.context import Clock
from swarm.node.base.looking import EARLY, PAUSE, LogOnce, Rhythm, until_readable

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


def pauses(looks: int, news: Callable[[Rhythm], None], before: int) -> list[float | None]:
    """So many; before one of them there is news."""
    clock = Watched()
    rhythm = Rhythm(cast(Clock, clock), MOST)

    async def go() -> None:
        for number in range(looks):
            if number == before:
                news(rhythm)
            await rhythm.sleep(LONGEST)

    anyio.run(go)
    return clock.pauses


@pytest.mark.parametrize(
    ("before", "news", "found"),
    [
        (0, lambda rhythm: None, [1.0, 1.5, 2.25, 3.375, 5.0625, 7.59375, LONGEST, LONGEST]),
        (0, lambda rhythm: rhythm.expect(50.0), [50.0 * EARLY, 1.0, 1.5]),
        (0, lambda rhythm: rhythm.expect(100.0), [MOST, 100.0 * EARLY - MOST]),
        (4, Rhythm.keep_pace, [1.0, 1.5, 2.25, 3.375, 1.0]),
    ],
    ids=["they grow up to the longest", "nothing before it can be there", "a look at last", "news"],
)
def test_pauses_follow_what_is_expected_and_what_is_new(
    before: int, news: Callable[[Rhythm], None], found: list[float]
) -> None:
    assert pauses(len(found), news, before) == found


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


# ── what a node cannot go on without is read as soon as the place gives it ────────────────────────────────────────────
class Context:
    """Of a place that refuses a few times."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.slept: list[float] = []
        self.clock = self.blocking = self

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def run(self, call: object, key: str) -> str:
        self.refusals -= 1
        if self.refusals >= 0:
            raise StoreError("stale file handle")
        if key == "odd":
            raise ProtocolError("malformed", "it is no file of ours")
        return f"what lies at {key}"


def read(context: Context, key: str) -> str:
    return anyio.run(until_readable, context, print, key)  # type: ignore[arg-type]


def test_it_is_tried_until_the_place_can_be_read() -> None:
    context = Context(refusals=3)
    assert read(context, "rows") == "what lies at rows"
    assert context.slept == [PAUSE] * 3


def test_what_is_there_and_not_to_be_taken_is_said_at_once() -> None:
    context = Context(refusals=0)
    with pytest.raises(ProtocolError):
        read(context, "odd")
    assert context.slept == []


@pytest.mark.parametrize(
    ("spells", "said"),
    [
        ([(0.0, 3.0, 5.9), (100.0, 105.9)], []),
        ([(0.0, 5.0, 6.0, 7.0, 60.0), ()], ["trouble", "trouble.over"]),
    ],
)
def test_a_problem_that_outlasts_patience_is_said_once_with_its_end_and_any_other_never(
    spells: list[tuple[float, ...]], said: list[str]
) -> None:
    with capture_logs() as logs:
        problem = LogOnce("trouble", over="trouble.over", patience=6.0)
        for spell in spells:
            for seconds in spell:
                problem.found("a while", seconds)
            problem.gone()
    assert [log["event"] for log in logs] == said
