"""A node's answers; where tasks converse turn by turn: its policy answers, and its own scoring children reply.

    questions ─▶ first turns ─▶ Conversations ─▶ replies ─▶ next turns of all that go on ─▶ ... ─▶ whole conversations

    waits for   the scoring children's replies, then the compute thread; between two turns that thread is free
    unblocks    whoever asked, with whole conversations

What a generator samples in a turn is a function of its weights, of what was said, and of a seed of that turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial

from swarm.logs import get_logger
from swarm.node.base.context import Timed
from swarm.node.sharing.verification import TaskSource, all_at_once
from swarm.node.worker.context import WorkerContext
from swarm.tasks.conversation import Conversations, Texts
from swarm.types import Dialogue, GenerationCall, Generator, Groups, Question, Ready

logger = get_logger(__name__)


async def answers_to(
    ctx: WorkerContext,
    generator: Generator,
    questions: Sequence[Question],
    group_size: int,
    seed: Callable[[int], int],
    *,
    timed: Timed = nullcontext,
    ready: Ready | None = None,
) -> Groups:
    """Returns the completions to some questions, those of tasks that converse led to their end.

    Args:
        seed: of each turn, 0 the first.
        timed: wraps the steps that generate.
        ready: told of groups of first turns as they come.

    Raises:
        ProtocolError: a question cannot be made again.
        ScoringError: no scoring child could be kept alive.
    """

    async def generate(prompts: Sequence[str | Dialogue], turn: int = 0) -> Groups:
        call = GenerationCall(prompts, 1 if turn else group_size, seed(turn), None if turn else ready)
        return await ctx.compute.generate(generator, call, timed)

    answers = await generate([question.prompt for question in questions])
    if not any(question.turns > 1 for question in questions):
        return answers
    talks = Conversations(questions, answers)
    while asked := talks.to_reply_to():
        if dialogues := talks.hear(await _replies(ctx.task_source, questions, asked)):
            talks.say(await generate(dialogues, talks.turn))
    return talks.groups


async def _replies(
    source: TaskSource, questions: Sequence[Question], asked: Mapping[int, Sequence[Texts]]
) -> dict[int, Sequence[str | None]]:
    """Asks for replies to all questions at the same time, so that they share a child."""

    async def ask(number: int) -> Sequence[str | None]:
        question = questions[number]
        replied = await source.reply(question.known_origin(), asked[number])
        if replied.killed or replied.errors:
            logger.warning("reply.failed", task=question.task, killed=replied.killed, errors=replied.errors)
        return replied.replies

    replies = await all_at_once([partial(ask, number) for number in asked])
    return dict(zip(asked, replies, strict=True))
