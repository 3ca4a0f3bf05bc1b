"""What a node cannot go on without is read as soon as the shared place gives it."""

from __future__ import annotations

import anyio
import pytest
from structlog.testing import capture_logs

from swarm.errors import ProtocolError, StoreError
from swarm.node.base.looking import PAUSE, LogOnce, until_readable


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


def test_a_problem_that_passes_before_patience_ends_is_never_said() -> None:
    with capture_logs() as logs:
        problem = LogOnce("trouble", over="trouble.over", patience=6.0)
        for seconds in (0.0, 3.0, 5.9):
            problem.found("a while", seconds)
        problem.gone()
        problem.found("again", 100.0)
        problem.found("again", 105.9)
        problem.gone()
    assert logs == []


def test_one_that_lasts_is_said_once_with_its_end() -> None:
    with capture_logs() as logs:
        problem = LogOnce("trouble", over="trouble.over", patience=6.0)
        for seconds in (0.0, 5.0, 6.0, 7.0, 60.0):
            problem.found(seconds, seconds)
        problem.gone()
        problem.gone()
    assert [log["event"] for log in logs] == ["trouble", "trouble.over"]
