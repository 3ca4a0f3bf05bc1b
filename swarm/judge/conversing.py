"""Answers of a model that was loaded to be measured: completions, or whole conversations with the scoring children."""

from __future__ import annotations

from collections.abc import Sequence

from anyio import from_thread

from swarm.algo.seeds import derive_seed
from swarm.tasks.conversation import Conversations
from swarm.tasks.scoring import Scorer
from swarm.types import Completion, Generator, Question


def answers_of(
    generator: Generator,
    questions: Sequence[Question],
    samples: int,
    seed: tuple[int, str, *tuple[str, ...]],
    scorer: Scorer | None,
) -> list[tuple[Completion, ...]]:
    """Returns so many completions to each question, in one go. Blocking, in a worker thread of the scorer's loop.

    Args:
        seed: as of derive_seed; of later turns it has their number behind it.
        scorer: replies to the model; not needed where no question converses.
    """
    prompts = [question.prompt for question in questions]
    first_turns = generator.generate(prompts, group_size=samples, seed=derive_seed(*seed))
    talks = Conversations(questions, first_turns)
    while asked := talks.to_reply_to():
        assert scorer
        replies = {
            number: from_thread.run(scorer.reply, questions[number].known_origin(), texts).replies
            for number, texts in asked.items()
        }
        if dialogues := talks.hear(replies):
            talks.say(generator.generate(dialogues, group_size=1, seed=derive_seed(*seed, talks.turn)))
    return talks.groups
