"""The thread that computes, for one node or several."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import anyio
import pytest

from swarm.node.base.context import total
from swarm.node.process.system import ComputeExecutor, compute_thread
from tests.patience import PATIENCE
from tests.unit.node.nodes import until

pytestmark = pytest.mark.anyio


async def test_a_step_whose_caller_was_cancelled_ends_before_the_next_begins() -> None:
    go, began, order = threading.Event(), threading.Event(), []

    def step(name: str) -> None:
        began.set()
        assert go.wait(PATIENCE)
        order.append(name)

    with compute_thread() as thread:
        executor = ComputeExecutor(time.monotonic, thread)
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
    with compute_thread() as thread:
        executor = ComputeExecutor(lambda: float(next(ticks)), thread)
        await executor.run(int)
        with pytest.raises(ValueError, match="invalid literal"):
            await executor.run(int, "x")
    assert total(executor.busy.since(0.0)) == 2.0


async def test_nodes_that_share_a_thread_take_turns_in_it_and_each_sees_its_own_work() -> None:
    ticks = iter(range(100))
    with compute_thread() as thread:
        one, other = (ComputeExecutor(lambda: float(next(ticks)), thread) for _ in range(2))
        assert await one.run(threading.get_ident) == await other.run(threading.get_ident)
        await other.run(int)
    assert (total(one.busy.since(0.0)), total(other.busy.since(0.0))) == (1.0, 2.0)


async def test_a_step_runs_in_the_context_of_the_node_that_asked_for_it() -> None:
    whose: ContextVar[str] = ContextVar("whose")
    seen: dict[str, str] = {}

    async def node(name: str, thread: ThreadPoolExecutor) -> None:
        whose.set(name)
        seen[name] = await ComputeExecutor(time.monotonic, thread).run(whose.get)

    with compute_thread() as thread:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(node, "alice", thread)
            tasks.start_soon(node, "bob", thread)
    assert seen == {"alice": "alice", "bob": "bob"}
