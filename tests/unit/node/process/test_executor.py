"""The thread that computes, for one node or several."""

from __future__ import annotations

import threading
import time
from contextvars import ContextVar

import anyio
import pytest

from swarm.node.base.timeline import total
from swarm.node.process.executor import ComputeExecutor, ComputeThread
from tests.patience import PATIENCE
from tests.unit.node.nodes import until

pytestmark = pytest.mark.anyio


async def test_all_steps_run_in_one_thread_that_is_not_the_event_loops() -> None:
    with ComputeExecutor(time.monotonic) as executor:
        threads = {await executor.run(threading.get_ident) for _ in range(5)}
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_what_a_step_returns_or_raises_comes_back() -> None:
    with ComputeExecutor(time.monotonic) as executor:
        assert await executor.run(divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await executor.run(divmod, 7, 0)


async def test_a_step_whose_caller_was_cancelled_ends_before_the_next_begins() -> None:
    go, began, order = threading.Event(), threading.Event(), []

    def step(name: str) -> None:
        began.set()
        assert go.wait(PATIENCE)
        order.append(name)

    with ComputeExecutor(time.monotonic) as executor:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(executor.run, step, "first")
            await until(began.is_set)
            tasks.cancel_scope.cancel()
        assert order == []
        go.set()
        await executor.run(step, "second")
    assert order == ["first", "second"]


async def test_busy_is_the_time_of_the_steps_whether_they_end_well_or_not() -> None:
    ticks = iter(range(100))
    executor = ComputeExecutor(lambda: float(next(ticks)))
    with executor:
        await executor.run(int)
        with pytest.raises(ValueError, match="invalid literal"):
            await executor.run(int, "x")
    assert total(executor.busy.since(0.0)) == 2.0


async def test_nodes_that_share_a_thread_take_turns_in_it_and_each_sees_its_own_work() -> None:
    ticks = iter(range(100))
    thread = ComputeThread()
    one, other = (ComputeExecutor(lambda: float(next(ticks)), thread) for _ in range(2))
    assert await one.run(threading.get_ident) == await other.run(threading.get_ident)
    await other.run(int)
    assert (total(one.busy.since(0.0)), total(other.busy.since(0.0))) == (1.0, 2.0)
    thread.close()


async def test_a_node_that_leaves_does_not_close_a_thread_that_it_shares() -> None:
    thread = ComputeThread()
    with ComputeExecutor(time.monotonic, thread):
        pass
    assert await ComputeExecutor(time.monotonic, thread).run(int) == 0
    thread.close()


async def test_a_step_runs_in_the_context_of_the_node_that_asked_for_it() -> None:
    whose: ContextVar[str] = ContextVar("whose")
    seen: dict[str, str] = {}
    thread = ComputeThread()

    async def node(name: str) -> None:
        whose.set(name)
        seen[name] = await ComputeExecutor(time.monotonic, thread).run(whose.get)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(node, "alice")
        tasks.start_soon(node, "bob")
    assert seen == {"alice": "alice", "bob": "bob"}
    thread.close()
