"""Nodes of one process generate together, and nobody waits for long for who does not come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from threading import Event
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from swarm.errors import ModelError
from swarm.node.process import together
from swarm.node.process.system import SYSTEM_CLOCK, ComputeExecutor, compute_thread
from swarm.node.process.together import Companions, GenerationTogether
from swarm.types import Completion, GenerationCall, Groups
from tests.unit.node.nodes import until

pytestmark = pytest.mark.anyio
CALL = GenerationCall(["?"], 2, 1)


class FakeGenerator:
    """Answers with its name; raises if it is called `broken`."""

    def __init__(self, name: str, nodes: Nodes) -> None:
        self.name, self.nodes = name, nodes

    @property
    def batch_key(self) -> object:
        return id(self.nodes)

    @property
    def batch_size(self) -> int:
        return self.nodes.count

    def generate(self, prompts: Sequence[str], **_: Any) -> Groups:
        return [(Completion(self.name, True),) for _ in prompts]

    def generate_together(self, calls: Sequence[tuple[Any, GenerationCall]]) -> Sequence[Groups | Exception]:
        self.nodes.steps.append([generator.name for generator, _ in calls])
        return [
            ModelError("diverged") if generator.name == "broken" else generator.generate(call.prompts)
            for generator, call in calls
        ]


class Nodes:
    """So many nodes of one process: who was in which step, and what each was answered."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.steps: list[list[str]] = []
        self.answers: dict[str, Any] = {}
        self.free = Event()
        """Set: the compute thread may begin."""

    @asynccontextmanager
    async def asking(self, *names: str) -> AsyncIterator[TaskGroup]:
        """These ask at once, and the compute thread is free at the end of the block."""
        self.free.clear()
        with compute_thread() as thread, anyio.fail_after(20):
            self._thread, self._together = thread, GenerationTogether(thread, SYSTEM_CLOCK.monotonic)
            thread.submit(self.free.wait, 10)
            async with anyio.create_task_group() as tasks:
                for name in names:
                    tasks.start_soon(self.ask, name)
                await anyio.wait_all_tasks_blocked()
                yield tasks
                await anyio.wait_all_tasks_blocked()
                self.free.set()

    async def ask(self, name: str, call: GenerationCall = CALL) -> None:
        compute = ComputeExecutor(SYSTEM_CLOCK.monotonic, self._thread, name, self._together)
        try:
            ((completion,),) = await compute.generate(FakeGenerator(name, self), call)
            self.answers[name] = completion.text
        except ModelError as error:
            self.answers[name] = str(error)
        assert compute.busy


async def test_nodes_that_ask_at_the_same_time_are_one_step_and_who_fails_in_it_fails_alone() -> None:
    nodes = Nodes(3)
    async with nodes.asking("anna", "ben", "broken"):
        pass
    assert nodes.steps == [["anna", "ben", "broken"]]
    assert nodes.answers == {"anna": "anna", "ben": "ben", "broken": "diverged"}


async def test_a_dead_node_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "FIRST", 0.05)
    nodes = Nodes(3)
    async with nodes.asking("anna", "ben") as tasks:
        nodes.free.set()
        await until(lambda: len(nodes.answers) == 2)
        tasks.start_soon(nodes.ask, "anna")
        tasks.start_soon(nodes.ask, "ben")
    assert nodes.steps == [["anna", "ben"]] * 2


async def test_who_asks_while_the_thread_is_busy_is_in_the_step_that_waits_for_it() -> None:
    nodes = Nodes(2)
    async with nodes.asking("anna", "ben") as tasks:
        tasks.start_soon(nodes.ask, "late")
    assert nodes.steps == [["anna", "ben", "late"]]


async def test_other_group_sizes_are_another_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "FIRST", 0.05)
    nodes = Nodes(2)
    async with nodes.asking("anna") as tasks:
        tasks.start_soon(nodes.ask, "ben", GenerationCall(["?"], 4, 1))
    assert sorted(nodes.steps) == [["anna"], ["ben"]]


async def test_a_call_that_is_cancelled_before_its_step_is_no_part_of_it() -> None:
    nodes = Nodes(3)
    async with nodes.asking("anna") as tasks:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as gone:
                gone.start_soon(nodes.ask, "ben")
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        tasks.start_soon(nodes.ask, "cleo")
    assert nodes.steps == [["anna", "cleo"]]


def test_companions_are_waited_for_and_strangers_for_a_moment() -> None:
    known = Companions()

    def patience(present: str) -> float:
        return known.patience(frozenset(present), nodes=3)

    assert (patience("a"), patience("abc")) == (together.FIRST, 0.0)
    known.stepped(frozenset("abc"), 8.0)
    assert patience("a") == 8.0 * together.SHARE
    known.stepped(frozenset("ab"), 8.0)
    assert patience("ab") == together.MOMENT, "c was late"
    assert patience("c") == 8.0 * together.SHARE, "it was with them before"
    known.stepped(frozenset("c"), 4000.0)
    assert (patience("c"), patience("b")) == (together.MOMENT, together.LONGEST)
