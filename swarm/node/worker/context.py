"""Holds what every part of a worker is given besides a node's context: where it computes, and where questions come
from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import starmap
from typing import NamedTuple, TypeVar

from swarm.errors import ProtocolError
from swarm.logs import get_logger
from swarm.node.base.context import Compute, Interval, NodeContext, merge
from swarm.node.base.write_queue import WriteQueue
from swarm.node.sharing.admission import AssignedQuestions
from swarm.node.sharing.contexts import Contexts
from swarm.node.sharing.verification import TaskSource
from swarm.records.pace import StepPace
from swarm.tasks.family import QuestionRequest
from swarm.tasks.universe import Mixture
from swarm.types import GENERATION_FAILED, Question, RoundKey
from swarm.wire.messages import RolloutFile

Result = TypeVar("Result")
logger = get_logger(__name__)

COMPUTING = ("generate", "train")


class PublishingHook(NamedTuple):
    """Changes what peers see, and takes the change back: a node that comes back reads what it had sampled."""

    change: Callable[[RolloutFile], RolloutFile]
    take_back: Callable[[RolloutFile], RolloutFile]


class OwnQuestion(NamedTuple):
    """One of a node's own questions."""

    slot: int
    question: Question


@dataclass(frozen=True, kw_only=True)
class WorkerContext(NodeContext):
    """Holds what every part of one worker uses for the worker's life."""

    compute: Compute
    assigned: AssignedQuestions
    task_source: TaskSource
    """Source of questions of all stages."""
    writes: WriteQueue
    contexts: Contexts | None = None
    """Answers of the stage before, for the questions of stages after the first; None: rounds have one stage."""
    before_publishing: tuple[PublishingHook, ...] = ()
    """Hooks of plugins."""
    mixture: Mixture | None = None
    """Mixture of tasks that this node asks; None: that of everybody."""
    pace: StepPace = field(default_factory=StepPace)
    """Pace of its steps."""
    spans: dict[str, deque[Interval]] = field(default_factory=lambda: {step: deque(maxlen=100) for step in COMPUTING})
    """Spans of the steps that compute: when each was done since the last row. Filled by whichever thread does it."""

    async def ask(self, key: RoundKey, count: int) -> list[OwnQuestion]:
        """This node's questions of the first `count` slots of a round, less those that cannot be made within limits."""
        requests = self.assigned.questions(self.node_id, key, count, self.mixture)
        try:
            return list(starmap(OwnQuestion, enumerate(await self.task_source.make(requests))))
        except ProtocolError as error:
            if error.reason != GENERATION_FAILED:
                raise
        return [asked for slot, request in enumerate(requests) if (asked := await self._asked(key, slot, request))]

    async def _asked(self, key: RoundKey, slot: int, request: QuestionRequest) -> OwnQuestion | None:
        try:
            (question,) = await self.task_source.make([request])
        except ProtocolError as error:
            if error.reason != GENERATION_FAILED:
                raise
            logger.warning("question.not_made", round=key.round, slot=slot, task=request.full_task, error=str(error))
            return None
        return OwnQuestion(slot, question)

    def as_sampled(self, file: RolloutFile) -> RolloutFile:
        """An own file without what the hooks before publishing have changed."""
        for hook in reversed(self.before_publishing):
            file = hook.take_back(file)
        return file

    @contextmanager
    def timed(self, seconds: dict[str, float], step: str) -> Iterator[None]:
        """Add the time of the block to a step's seconds, and keep when it was."""
        begun = self.clock.monotonic()
        yield
        ended = self.clock.monotonic()
        seconds[step] += ended - begun
        if step in self.spans:
            self.spans[step].append((begun, ended))

    def take_spans(self, step: str) -> list[Interval]:
        """Returns when a step was done since the last call."""
        spans = self.spans[step]
        return merge([spans.popleft() for _ in range(len(spans))])

    async def compute_timed(self, seconds: dict[str, float], step: str, call: Callable[[], Result]) -> Result:
        """Compute; the seconds are those of computing, without the wait for its turn."""

        def timed() -> Result:
            with self.timed(seconds, step):
                return call()

        return await self.compute.run(timed)
