"""Nodes of one process generate together, and nobody waits for long for who does not come."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import anyio
import pytest

from swarm.errors import ModelError
from swarm.node.process import together
from swarm.node.process.system import SYSTEM_CLOCK, ComputeExecutor, compute_thread
from swarm.node.process.together import Companions, GenerationTogether
from swarm.types import Completion, GenerationCall, Groups

pytestmark = pytest.mark.anyio
ALL = frozenset({"anna", "ben", "cleo"})


class Base:
    """What the generators of one test have in common."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.steps: list[list[str]] = []
        self.go = Event()
        self.go.set()


class FakeGenerator:
    """Answers with its name; raises if it is called `broken`."""

    def __init__(self, name: str, base: Base) -> None:
        self.name, self.base = name, base

    @property
    def batch_key(self) -> object:
        return id(self.base)

    @property
    def batch_size(self) -> int:
        return self.base.nodes

    def generate(self, prompts: Sequence[str], **_: Any) -> Groups:
        return [(Completion(self.name, True),) for _ in prompts]

    def generate_together(self, calls: Sequence[tuple[Any, GenerationCall]]) -> Sequence[Groups | Exception]:
        assert self.base.go.wait(10)
        self.base.steps.append([generator.name for generator, _ in calls])
        return [
            ModelError("diverged") if generator.name == "broken" else generator.generate(call.prompts)
            for generator, call in calls
        ]


CALL = GenerationCall(["?"], 2, 1)


class Nodes:
    """Their executors, and what each was answered."""

    def __init__(self, thread: ThreadPoolExecutor, base: Base) -> None:
        self._base = base
        now = SYSTEM_CLOCK.monotonic
        self._together = GenerationTogether(thread, now)
        self._thread = thread
        self.answers: dict[str, Any] = {}
        self.asked = 0

    async def ask(self, name: str, call: GenerationCall = CALL) -> None:
        compute = ComputeExecutor(SYSTEM_CLOCK.monotonic, self._thread, name, self._together)
        self.asked += 1
        try:
            ((completion,),) = await compute.generate(FakeGenerator(name, self._base), call)
            self.answers[name] = completion.text
        except ModelError as error:
            self.answers[name] = error
        assert compute.busy

    async def round(self, *names: str) -> None:
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                for name in names:
                    tasks.start_soon(self.ask, name)


async def test_nodes_that_ask_at_the_same_time_are_one_step_and_each_gets_its_own() -> None:
    base = Base(3)
    with compute_thread() as thread:
        nodes = Nodes(thread, base)
        for _ in range(2):
            await nodes.round("anna", "ben", "cleo")
    assert base.steps == [["anna", "ben", "cleo"]] * 2
    assert nodes.answers == {"anna": "anna", "ben": "ben", "cleo": "cleo"}


async def test_who_fails_in_a_step_fails_alone() -> None:
    base = Base(2)
    with compute_thread() as thread:
        nodes = Nodes(thread, base)
        await nodes.round("anna", "broken")
    assert nodes.answers["anna"] == "anna"
    assert isinstance(nodes.answers["broken"], ModelError)


async def test_a_dead_node_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "FIRST", 0.05)
    base = Base(3)
    with compute_thread() as thread:
        nodes = Nodes(thread, base)
        await nodes.round("anna", "ben")
        await nodes.round("anna", "ben")
    assert base.steps == [["anna", "ben"]] * 2


async def test_who_asks_while_the_thread_is_busy_is_in_the_step_that_waits_for_it() -> None:
    base, free, entered = Base(2), Event(), Event()

    def busy() -> None:
        entered.set()
        assert free.wait(10)

    with compute_thread() as thread:
        nodes = Nodes(thread, base)
        thread.submit(busy)
        assert entered.wait(10)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(nodes.ask, "anna")
            tasks.start_soon(nodes.ask, "ben")
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(nodes.ask, "late")
            await anyio.wait_all_tasks_blocked()
            free.set()
    assert base.steps == [["anna", "ben", "late"]]


async def test_other_group_sizes_are_another_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "FIRST", 0.05)
    base = Base(2)
    with compute_thread() as thread, anyio.fail_after(20):
        nodes = Nodes(thread, base)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(nodes.ask, "anna", GenerationCall(["?"], 2, 1))
            tasks.start_soon(nodes.ask, "ben", GenerationCall(["?"], 4, 1))
    assert sorted(base.steps) == [["anna"], ["ben"]]


async def test_a_call_that_is_cancelled_before_its_step_is_no_part_of_it() -> None:
    base, free = Base(3), Event()
    with compute_thread() as thread, anyio.fail_after(20):
        nodes = Nodes(thread, base)
        thread.submit(free.wait, 10)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(nodes.ask, "anna")
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as gone:
                    gone.start_soon(nodes.ask, "ben")
                    await anyio.wait_all_tasks_blocked()
                    scope.cancel()
            tasks.start_soon(nodes.ask, "cleo")
            await anyio.wait_all_tasks_blocked()
            free.set()
    assert base.steps == [["anna", "cleo"]]


def test_companions_are_waited_for_and_strangers_for_a_moment() -> None:
    known = Companions()
    assert known.patience(frozenset({"anna"}), 3) == together.FIRST
    assert known.patience(ALL, 3) == 0
    known.stepped(ALL, 8.0)
    assert known.patience(frozenset({"anna"}), 3) == 8.0 * together.SHARE
    known.stepped(frozenset({"anna", "ben"}), 8.0)  # cleo was late
    assert known.patience(frozenset({"anna", "ben"}), 3) == together.MOMENT
    assert known.patience(frozenset({"cleo"}), 3) == 8.0 * together.SHARE  # it was with them before
    known.stepped(frozenset({"cleo"}), 4000.0)
    assert known.patience(frozenset({"cleo"}), 3) == together.MOMENT
    assert known.patience(frozenset({"ben"}), 3) == together.LONGEST
