"""A node's conversations: turn by turn, its policy answers and its own scoring children reply.

    first turns (own_groups.py, features.py) ─▶ Conversations ─▶ replies ─▶ next turns of all that go on ─▶ ...

    waits for   the scoring children's replies, then the compute thread; between two turns that thread is free
    unblocks    whoever asked, with whole conversations

What a generator samples in a turn is a function of its weights, of what was said, and of a seed of that turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from swarm.logs import get_logger
from swarm.node.sharing.verification import TaskSource, all_at_once
from swarm.tasks.conversation import Conversations, Texts
from swarm.types import Completion, Dialogue, Question

logger = get_logger(__name__)

NextTurns = Callable[[Sequence[Dialogue], int], Awaitable[Sequence[tuple[Completion, ...]]]]
"""The policy's turn in some dialogues, and which one that is: 1 is the second."""


async def converse(
    source: TaskSource, questions: Sequence[Question], answers: Sequence[tuple[Completion, ...]], next_turns: NextTurns
) -> list[tuple[Completion, ...]]:
    """Returns the completions to some questions, those of tasks that converse led to their end.

    Args:
        answers: first turns.

    Raises:
        ProtocolError: a question cannot be made again.
        ScoringError: no scoring child could be kept alive.
    """
    talks = Conversations(questions, answers)
    while asked := talks.to_reply_to():
        if dialogues := talks.hear(await _replies(source, questions, asked)):
            talks.say(await next_turns(dialogues, talks.turn))
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
