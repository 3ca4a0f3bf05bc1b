"""One question put to one model: the prompt as it gets it, and what each of its answers earns, and why.

settings ─▶ Scorer.make ─▶ Question ─▶ one generate call ─▶ Scorer.score, an answer at a time ─▶ AskedQuestion
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec
from anyio import to_thread

from swarm.algo.seeds import held_out_seed
from swarm.config import Settings
from swarm.judge.exam import answers_of
from swarm.tasks.answer import ANSWER_LIMIT, extract_answer, has_answer
from swarm.tasks.family import QuestionRequest
from swarm.tasks.registry import NO_TASKS
from swarm.tasks.scoring import GroupScore, Scorer
from swarm.types import Completion, Question


class Prompted(msgspec.Struct, frozen=True):
    """A question as a model gets it."""

    text: str
    """Special tokens visible."""
    tokens: int
    thinking_off: bool = False
    """By the switch of the model's chat template, which nobody set."""


class AskedTurn(msgspec.Struct, frozen=True):
    text: str
    reply: str


class Answer(msgspec.Struct, frozen=True):
    text: str
    tokens: int
    finished: bool
    """Not cut at the length limit."""
    answer: str | None
    """What is scored of it; of a conversation in its last turn."""
    reward: float
    why: str
    earlier: tuple[AskedTurn, ...] = ()
    """Turns of a conversation: the turns before."""


class AskedQuestion(msgspec.Struct, frozen=True):
    model: str
    task: str
    profile: str
    seed: int
    """The question's."""
    prompt: Prompted
    truth: str | None
    """None where the task has no single answer."""
    answers: tuple[Answer, ...]


async def ask(settings: Settings, task: str, profile: str, samples: int) -> AskedQuestion:
    """Ask one held-out question; which one follows from the settings' seed.

    Args:
        task: by its full name.
        profile: in which the task is asked.

    Raises:
        ModelError: the model cannot be loaded or used.
        ProtocolError, ScoringError: the question cannot be made or scored.
    """
    seed = held_out_seed(settings.seed, "ask", profile, task)
    async with Scorer(1, settings.task_families, settings.task_table or NO_TASKS) as scorer:
        (question,) = await scorer.make([QuestionRequest.named(task, profile, seed)])
        prompt, completions = await to_thread.run_sync(partial(_answer, settings, question, samples, scorer))
        answers = [await _scored(scorer, question, completion) for completion in completions]
    return AskedQuestion(settings.model[0], task, profile, seed, prompt, question.answer, tuple(answers))


def _answer(
    settings: Settings, question: Question, samples: int, scorer: Scorer
) -> tuple[Prompted, Sequence[Completion]]:
    """Blocking: loads the model."""
    from swarm.policy.policy import load_generator
    from swarm.policy.settings import grpo_config, loading_options

    generator = load_generator(settings.model[0], grpo_config(settings), **loading_options(settings))
    (completions,) = answers_of(generator, [question], samples, (settings.seed, "ask answers"), scorer)
    return Prompted(*generator.shown_prompt(question.prompt), generator.thinking_off), completions


async def _scored(scorer: Scorer, question: Question, completion: Completion) -> Answer:
    """Scores one completion by itself, so that what went wrong is this answer's."""
    score = await scorer.score(question.known_origin(), question.prompt, [completion])
    return Answer(
        text=completion.text,
        tokens=sum(len(turn.token_ids or ()) for turn in completion.every_turn),
        finished=completion.finished,
        answer=extract_answer(completion.text),
        reward=score.rewards[0],
        why=why(completion.text, score),
        earlier=tuple(AskedTurn(turn.text, turn.reply) for turn in completion.earlier),
    )


def why(text: str, score: GroupScore) -> str:
    """Returns why a completion earned what it did.

    Args:
        score: of it alone.
    """
    if not score.answered[0]:
        return "no closed <answer>...</answer>"
    if score.question.turns == 1 and has_answer(text) and extract_answer(text) is None:
        return f"the answer is longer than {ANSWER_LIMIT} characters, or no valid Unicode"
    if score.killed:
        return "scoring it was killed: it hung, grew, or tried to run code"
    if score.errors:
        return "the scorer raised, or gave no number from 0 to 1"
    return f"the scorer said {score.rewards[0]:g}"
