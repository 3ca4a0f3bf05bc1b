"""This node's answers to a judge, who asks one held-out question per round if there is one at all.

    judge/questions/round_R/{node}.json ─▶ one completion of the policy after update R ─▶ judge/answers/round_R/

The answer is generated after the round's reward was submitted, so that the coordinator does not wait for it; its draws
have a seed of their own, nothing is trained on it, and none of it is in the node's rewards: a run is the same with and
without a judge. Where there is none, a round costs one look at a file that is not there; where each look is paid for,
every fourth round does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from swarm.algo.seeds import derive_seed
from swarm.errors import ProtocolError, StoreError
from swarm.logs import get_logger
from swarm.node.worker.context import WorkerContext
from swarm.node.worker.conversing import converse
from swarm.node.worker.hooks import AfterAgain, nothing
from swarm.node.worker.steps import PlayedRound
from swarm.tasks.family import QuestionRequest
from swarm.types import Completion, Dialogue, GenerationCall, Generator
from swarm.wire import keys
from swarm.wire.codec import decode, encode, turn_entries
from swarm.wire.judge_messages import JudgeAnswer, JudgeQuestion
from swarm.wire.messages import PolicyInfo
from swarm.wire.metrics import MetricsRow

logger = get_logger(__name__)

LONGEST_PROMPT = 4096
"""Characters; the longest question of any task has about a thousand, and memory is planned for those."""
LARGEST = 64 * 1024
"""Bytes of a question's file."""
APART = 4
"""Rounds without a question after which it is looked for in every APART-th alone, where looks are spared."""


class HeldOutAnswers:
    """Answers what a judge asks this node."""

    def __init__(self, ctx: WorkerContext, generator: Generator) -> None:
        self._ctx = ctx
        self._generator = generator
        self._refused: Counter[str] = Counter()
        self._asked: int | None = None
        """The last round with a question."""

    async def after_row(self, row: MetricsRow, rounds_trained: int) -> None:
        """Answer once the round's last stage is submitted."""
        if row.stage == self._ctx.settings.max_stages - 1:
            await self.answer(row.round, rounds_trained)

    @asynccontextmanager
    async def again(self, row: MetricsRow) -> AsyncIterator[AfterAgain]:
        """Answers after the last stage of a round that is redone."""
        after: AfterAgain = nothing
        if row.stage == self._ctx.settings.max_stages - 1:
            after = partial(self.answer_again, row.round)
        yield after

    def fill(self, row: MetricsRow, _: PlayedRound) -> None:
        """Counts the questions refused since the row before, by reason."""
        taken, self._refused = self._refused, Counter()
        row.refused_files = dict(Counter(row.refused_files) + taken)

    async def answer_again(self, round_: int, rounds_trained: int) -> None:
        """Answers in a round that is redone, if the kill came before the answer."""
        place, store = keys.judge_answer(round_, self._ctx.node_id), self._ctx.run.store
        try:
            there = await self._ctx.blocking.run(store.stat, place)
        except (ProtocolError, StoreError):  # a stranger's link, or a folder that is away: the judge does without
            return
        if there is None:
            await self.answer(round_, rounds_trained)

    async def answer(self, round_: int, rounds_trained: int) -> None:
        """Answer this round's question, if there is one that can be read; never fails for what a judge wrote."""
        if not self._may_be_asked(round_):
            return
        try:
            question = await self._ctx.blocking.run(self._question, round_)
        except ProtocolError as error:
            self._refused[error.reason] += 1
            logger.warning("question.refused", round=round_, reason=error.reason, detail=error.detail)
            return
        except StoreError as error:
            logger.warning("question.unreadable", round=round_, error=str(error))
            return
        if question is None:
            return
        self._asked = round_
        try:
            ((completion,),) = await self._answers(question)
        except Exception as error:  # noqa: BLE001 - a stranger's text must not end a node; broken weights end its next step
            logger.warning("answer.failed", round=round_, error=f"{type(error).__name__}: {error}")
            return
        await self._publish(question, completion, rounds_trained)

    def _may_be_asked(self, round_: int) -> bool:
        lately = self._asked is not None and round_ - self._asked <= APART
        return lately or round_ % APART == 0 or not self._ctx.settings.sparing

    async def _answers(self, question: JudgeQuestion) -> Sequence[tuple[Completion, ...]]:
        async def generate(prompts: Sequence[str | Dialogue], turn: int = 0) -> list[tuple[Completion, ...]]:
            purpose = (question.round, turn) if turn else (question.round,)
            seed = derive_seed(self._ctx.settings.seed, "judge", self._ctx.node_id, *purpose)
            return await self._ctx.compute.generate(self._generator, GenerationCall(prompts, 1, seed))

        first_turns = await generate([question.prompt])
        if not question.origin:
            return first_turns
        made = await self._ctx.task_source.make([QuestionRequest.of(question.origin)])
        return await converse(self._ctx.task_source, made, first_turns, generate)

    def _question(self, round_: int) -> JudgeQuestion | None:
        place, node = keys.judge_question(round_, self._ctx.node_id), self._ctx.node_id
        where = self._ctx.run.store.describe(place)
        try:
            question = decode(self._ctx.run.store.get(place, LARGEST).data, JudgeQuestion, where)
        except FileNotFoundError:
            return None
        if (question.node, question.round) != (node, round_):
            raise ProtocolError(
                "misplaced",
                f"{where} expected to ask {node!r} in round {round_}, got {question.node!r} in round {question.round}",
            )
        if not 0 < len(question.prompt) <= LONGEST_PROMPT:
            raise ProtocolError(
                "oversized",
                f"{where} expected a prompt of 1 to {LONGEST_PROMPT} characters, got {len(question.prompt)}",
            )
        return question

    async def _publish(self, question: JudgeQuestion, completion: Completion, rounds_trained: int) -> None:
        """Publishes an answer without fsync, as a vote: who loses power has other worries, and the judge asks again
        next round."""
        answer = JudgeAnswer(
            peer_id=self._ctx.node_id,
            round=question.round,
            question_id=question.question_id,
            response=completion.text,
            answered_at=self._ctx.clock.wall(),
            finished=completion.finished,
            turns=turn_entries(completion),
            policy=PolicyInfo(model=self._generator.name, rounds_trained=rounds_trained),
        )
        place, store = keys.judge_answer(question.round, self._ctx.node_id), self._ctx.run.store
        try:
            await self._ctx.blocking.run(store.put, place, encode(answer), durable=False)
        except StoreError as error:
            logger.warning("answer.failed", round=question.round, error=str(error))
