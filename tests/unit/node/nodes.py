"""Run workers and coordinators of one process on a real folder, with light policies and a clock that tests turn."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from anyio import to_thread

from swarm.errors import StoreError
from swarm.node.base.context import Clock, NodeContext, ProcessIdentity
from swarm.node.coordinator.coordinator import Coordinator
from swarm.node.process.system import SYSTEM_CLOCK, ComputeExecutor, ThreadBlocking
from swarm.node.worker.worker import Worker
from swarm.records.files import read_peer
from swarm.records.liveness import ACTIVE, STOPPED
from swarm.records.rows import read_rows
from swarm.store.folder.store import FolderStore
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.codec import decode, encode
from swarm.wire.messages import MetricsRow, RolloutFile
from tests.layout import Layout
from tests.patience import PATIENCE
from tests.unit.node.factories import (
    UNIVERSE,
    FakePolicy,
    FakeTaskSource,
    make_peer,
    make_settings,
    make_state,
    put_traces,
    run_of,
    unmeasured,
)

WITHIN = PATIENCE
"""Seconds after which a test gives up; each needs one or two."""


_pids = itertools.count(1000)
_running: set[int] = set()
"""Process ids of the nodes that `run_all` and `running` run now."""


def make_process() -> ProcessIdentity:
    """As if every node had a process of its own, on this machine."""
    pid = next(_pids)
    return ProcessIdentity(
        host="here/boot/pid",
        pid=pid,
        started_at=0.0,
        incarnation=f"incarnation-{pid}",
        secret=b"secret %d" % pid,
        is_running=lambda pid, _: pid in _running,
    )


def make_context(
    layout: Layout, node: str = "alice", *, times: Clock = SYSTEM_CLOCK, kept: Path | None = None, **settings: Any
) -> NodeContext:
    return NodeContext(
        settings=make_settings(layout.path, **settings),
        node_id=node,
        run=run_of(layout, node),
        clock=times,
        blocking=ThreadBlocking(),
        process=make_process(),
        kept=str(kept or ""),
    )


def make_worker(
    layout: Layout, node: str, policy: FakePolicy | None = None, source: FakeTaskSource | None = None, **settings: Any
) -> Worker:
    policy = policy or FakePolicy()
    return Worker(
        make_context(layout, node, **settings),
        universe=UNIVERSE,
        load_policy=lambda: policy,
        task_source=source or FakeTaskSource(),
        compute=ComputeExecutor(time.monotonic, ThreadPoolExecutor(max_workers=1)),
    )


def make_coordinator(layout: Layout, node: str = "clock", **settings: Any) -> Coordinator:
    return Coordinator(make_context(layout, node, role="coordinator", **settings))


async def _run(node: Worker | Coordinator) -> int:
    pid = node._ctx.process.pid
    _running.add(pid)
    try:
        return await node.run()
    finally:
        _running.discard(pid)


async def run_all(*nodes: Worker | Coordinator) -> list[int]:
    """Their exit codes, once all of them have ended."""
    codes = [-1] * len(nodes)

    async def run(index: int) -> None:
        codes[index] = await _run(nodes[index])

    with anyio.fail_after(WITHIN):
        async with anyio.create_task_group() as tasks:
            for index in range(len(nodes)):
                tasks.start_soon(run, index)
    return codes


@asynccontextmanager
async def running(*nodes: Worker | Coordinator) -> AsyncIterator[list[int]]:
    """Nodes in the background; those that are still there at the end are killed. Gives exit codes as they come."""
    codes: list[int] = []

    async def run(node: Worker | Coordinator) -> None:
        codes.append(await _run(node))

    with anyio.fail_after(WITHIN):
        async with anyio.create_task_group() as tasks:
            for node in nodes:
                tasks.start_soon(run, node)
            yield codes
            tasks.cancel_scope.cancel()


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that another task or thread brings about."""
    with anyio.fail_after(WITHIN):
        while not condition():  # noqa: ASYNC110 - what is waited for is a file, which sets no event
            await anyio.sleep(0.01)


@asynccontextmanager
async def beating(layout: Layout, node: str, **more: Any) -> AsyncIterator[None]:
    """A node that does nothing but live; a worker, if nothing else is said."""

    async def beat() -> None:
        for number in itertools.count(1):
            peer = make_peer(node, beat=number, last_seen=time.time(), **more)
            layout.put(layout.peer_file(node), encode(peer), durable=False)
            await anyio.sleep(0.05)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beat)
        yield
        tasks.cancel_scope.cancel()


async def set_clock(layout: Layout, round_: int, *, finished: bool = False) -> None:
    """Be the coordinator, of which nothing else is seen; at the end it says goodbye."""
    await to_thread.run_sync(put_traces, layout, round_)
    state = make_state(round=round_, finished=finished)
    status = STOPPED if finished else ACTIVE
    registration = make_peer(state.updated_by, node_role="coordinator", round=round_, status=status)
    for file, content in ((layout.peer_file(state.updated_by), registration), (layout.state_file, state)):
        await to_thread.run_sync(layout.put, file, encode(content))


async def play_rounds(layout: Layout, rounds: range, node: str = "alice") -> None:
    """Open one round after the other, as soon as a node has submitted the one before."""
    for round_ in rounds:
        await set_clock(layout, round_)
        await until(layout.reward_file(RoundKey(round_), node).exists)


async def play_to_the_end(layout: Layout, rounds: range, worker: Worker, node: str = "alice") -> None:
    """One worker, all these rounds, and the end of the experiment."""
    await set_clock(layout, rounds.start)  # before the worker looks: the clock may still say that all is over
    async with running(worker) as codes:
        await play_rounds(layout, rounds, node)
        await set_clock(layout, rounds.stop, finished=True)
        await until(lambda: codes)
    assert codes == [0]


@contextmanager
def released(policy: FakePolicy) -> Iterator[None]:
    """A policy that holds is let go at the end, so that no failing test hangs."""
    try:
        yield
    finally:
        policy.go.set()


def status_of(layout: Layout, node: str) -> str:
    """As the node's registration says."""
    peer = read_peer(layout.run, node)
    return peer.status if peer else ""


def completions_file(layout: Layout, round_: int) -> Path:
    """What alice sampled for a round."""
    return layout.root / keys.completions(round_, "alice")


def rows_of(layout: Layout, node: str) -> list[MetricsRow]:
    rows, junk, *_ = read_rows(layout.run, node)
    assert not junk
    return rows


def rounds_of(layout: Layout, node: str = "alice") -> list[int]:
    return [row.round for row in rows_of(layout, node)]


def comparable(layout: Layout) -> list[dict[str, Any]]:
    """What alice's rows say, but for what was measured."""
    return [unmeasured(msgspec.structs.asdict(row)) for row in rows_of(layout, "alice")]


def rollouts_of(layout: Layout, round_: int, node: str) -> RolloutFile:
    file = layout.rollout_file(RoundKey(round_), node)
    return decode(file.read_bytes(), RolloutFile, file.name)


@contextmanager
def unwritable(node: str) -> Iterator[None]:
    """For the block, nothing can be put by this node."""
    usual = FolderStore.put

    def put(store: FolderStore, key: str, data: bytes, **more: Any) -> None:
        if store._writer == node:
            raise StoreError("no room for it")
        usual(store, key, data, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FolderStore, "put", put)
        yield
