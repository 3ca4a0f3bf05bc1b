"""One at a time, the lowest rank first."""

from __future__ import annotations

import anyio
import pytest

from swarm.node.sharing.selection import PriorityLock
from tests.patience import PATIENCE

pytestmark = pytest.mark.anyio


async def in_order(*ranks: int) -> list[int]:
    """The order in which turns are given to those who ask in this order, while somebody else is at work."""
    turns, order, done = PriorityLock(), list[int](), anyio.Event()

    async def first() -> None:
        async with turns.hold(0):
            await done.wait()

    async def ask(rank: int) -> None:
        async with turns.hold(rank):
            order.append(rank)
            await anyio.lowlevel.checkpoint()

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first)
            for rank in ranks:
                tasks.start_soon(ask, rank)
            await anyio.wait_all_tasks_blocked()
            done.set()
    return order


async def test_the_lowest_rank_goes_first() -> None:
    assert await in_order(3, 1, 2, 1) == [1, 1, 2, 3]


async def test_only_one_works_at_a_time() -> None:
    turns, working, most = PriorityLock(), 0, 0

    async def work(rank: int) -> None:
        nonlocal working, most
        async with turns.hold(rank):
            working += 1
            most = max(most, working)
            await anyio.lowlevel.checkpoint()
            await turns.let_others_first(rank + 1)
            await anyio.lowlevel.checkpoint()
            most = max(most, working)
            working -= 1

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for rank in range(5):
                tasks.start_soon(work, rank)
    assert working == 0


async def test_who_lets_others_first_goes_on_after_those_of_a_lower_rank() -> None:
    turns, order = PriorityLock(), list[str]()

    async def long() -> None:
        async with turns.hold(1):
            order.append("long begins")
            await anyio.lowlevel.checkpoint()
            await turns.let_others_first(4)
            order.append("long ends")

    async def short(name: str, rank: int) -> None:
        async with turns.hold(rank):
            order.append(name)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(long)
            tasks.start_soon(short, "worse", 5)
            tasks.start_soon(short, "better", 2)
    assert order == ["long begins", "better", "long ends", "worse"]


async def test_with_nobody_better_in_line_letting_others_first_costs_no_turn() -> None:
    turns = PriorityLock()
    with anyio.fail_after(PATIENCE):
        async with turns.hold(1):
            await turns.let_others_first(1)


@pytest.mark.parametrize("at_work", [True, False], ids=["while others work", "when called"])
async def test_one_that_is_cancelled_in_line_leaves_its_place_to_the_next(at_work: bool) -> None:
    turns, order = PriorityLock(), list[str]()
    scope = anyio.CancelScope()

    async def cancelled() -> None:
        with scope:
            async with turns.hold(1):
                order.append("cancelled")

    async def following() -> None:
        async with turns.hold(2):
            order.append("following")

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks, turns.hold(0):
            tasks.start_soon(cancelled)
            tasks.start_soon(following)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            if at_work:
                await anyio.wait_all_tasks_blocked()
    assert order == ["following"]
    async with turns.hold(9):
        pass
