"""What every part of a worker is given besides a node's context: where it computes, and where questions come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from swarm.node.base.context import Compute, NodeContext
from swarm.node.base.write_queue import WriteQueue
from swarm.node.sharing.assigned_questions import AssignedQuestions
from swarm.node.sharing.verification import TaskSource
from swarm.records.pace import StepPace
from swarm.types import Question, RoundKey

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class WorkerContext(NodeContext):
    """Of one worker, for its life."""

    compute: Compute
    assigned: AssignedQuestions
    task_source: TaskSource
    writes: WriteQueue
    pace: StepPace = field(default_factory=StepPace)
    """Of its steps."""

    async def ask(self, key: RoundKey, count: int) -> list[Question]:
        """This node's first `count` questions of a round."""
        return await self.task_source.make(self.assigned.questions(self.node_id, key, count))

    @contextmanager
    def timed(self, seconds: dict[str, float], step: str) -> Iterator[None]:
        """Add the time of the block to a step's seconds."""
        begun = self.clock.monotonic()
        yield
        seconds[step] += self.clock.monotonic() - begun

    async def compute_timed(self, seconds: dict[str, float], step: str, call: Callable[[], Result]) -> Result:
        """Compute; the seconds are those of computing, without the wait for its turn."""

        def timed() -> Result:
            with self.timed(seconds, step):
                return call()

        return await self.compute.run(timed)
