"""The event loop's lag is measured while a round is played, and a node that waits is not woken for it."""

from __future__ import annotations

import time

import anyio
import pytest

from swarm.node.process import system
from swarm.node.process.system import measured_lag
from tests.patience import PATIENCE

pytestmark = pytest.mark.anyio


async def test_a_step_that_holds_up_the_loop_shows_in_its_round_and_in_no_later_one() -> None:
    async with measured_lag() as lag:
        with lag.of_a_round() as longest, anyio.fail_after(PATIENCE):
            await anyio.sleep(system.PERIOD / 2)
            time.sleep(4 * system.PERIOD)  # noqa: ASYNC251 - it is what is measured
            while longest() < 2 * system.PERIOD:  # noqa: ASYNC110 - the measuring task looks by itself
                await anyio.sleep(0.01)
        with lag.of_a_round() as longest:
            assert longest() == 0.0


async def test_nothing_wakes_the_loop_between_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    sleep = anyio.sleep

    async def counted(seconds: float) -> None:
        slept.append(seconds)
        await sleep(seconds)

    async with measured_lag() as lag:
        with lag.of_a_round():
            await sleep(0)
        await sleep(2 * system.PERIOD)
        monkeypatch.setattr(system.anyio, "sleep", counted)
        await sleep(4 * system.PERIOD)
        assert slept == []
