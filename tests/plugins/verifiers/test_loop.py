"""An event loop without sockets, threads or a clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from swarm.plugins.verifiers.loop import PlainLoop, StuckError


def run(main: Coroutine[Any, Any, Any]) -> Any:
    return PlainLoop().run(main, lambda: False)  # type: ignore[abstract]


def test_who_sleeps_wakes_in_order_and_no_time_passes() -> None:
    async def main() -> list[int]:
        woken: list[int] = []

        async def sleeper(seconds: int) -> None:
            await asyncio.sleep(seconds)
            woken.append(seconds)

        async with asyncio.timeout(5_000), asyncio.TaskGroup() as group:
            for seconds in (300, 100, 200):
                group.create_task(sleeper(seconds))
        return woken

    begun = time.monotonic()
    assert run(main()) == [100, 200, 300]
    assert time.monotonic() - begun < 60


def test_a_timeout_ends_what_takes_longer() -> None:
    async def main() -> None:
        async with asyncio.timeout(1):
            await asyncio.sleep(2)

    with pytest.raises(TimeoutError):
        run(main())


def test_what_waits_for_nothing_is_told_so() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(StuckError):
        run(main())


def test_threads_and_sockets_are_not_to_be_had() -> None:
    for wanted in (lambda: asyncio.to_thread(int), lambda: asyncio.open_connection("localhost", 9)):

        async def main(wanted: Any = wanted) -> None:
            await wanted()

        with pytest.raises(NotImplementedError):
            run(main())


def test_it_pauses_where_it_is_told_to() -> None:
    said: list[str] = []

    async def main() -> None:
        said.append("first")
        await asyncio.get_running_loop().create_future()

    paused = main()
    assert PlainLoop().run(paused, lambda: bool(said)) is None  # type: ignore[abstract]
    paused.close()
