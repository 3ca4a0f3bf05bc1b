"""Checks what `swarm task try` looks for: questions, rewards and times of a task, by the real scoring servers.

two servers ─▶ the same questions? ─▶ is their own answer right? ─▶ what do odd answers do? ─▶ TaskReport
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from swarm.cli.task_conversations import check_conversations
from swarm.errors import ProtocolError
from swarm.tasks.bounded import Limits
from swarm.tasks.definitions import Parameters
from swarm.tasks.family import QuestionRequest
from swarm.tasks.registry import Families
from swarm.tasks.scoring import FULL_ANSWER, GroupScore, Scorer
from swarm.types import Question

QUESTIONS = 20
"""So many are made, and made again."""
GROUP = 8
"""Answers of a group."""
SLOW_SHARE = 0.5
"""Share of the processor time of a group's child: who takes more is killed on a slower or busier machine."""
ODD = (
    "",
    " ",
    "0",
    "-1",
    "1e999",
    "None",
    "[]",
    "{",
    "__import__('os')",
    "\u00e9\u4e16\U0001f600",
    "(" * 500,
    "a" * 2_000,
)
"""Answers that somebody may give to any question."""

Value = TypeVar("Value")


@dataclass(frozen=True)
class Task:
    """Holds the task that is tried."""

    task: str
    """Its full name."""
    profile: str
    families: tuple[str, ...]
    defined: Mapping[str, Parameters]

    def request(self, seed: int) -> QuestionRequest:
        """Returns one of its questions."""
        return QuestionRequest.named(self.task, self.profile, seed)


@dataclass
class TaskReport:
    """Collects what was found."""

    questions: list[Question] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What a run would suffer from."""
    making: list[float] = field(default_factory=list)
    """Seconds for a question, with a child process of its own."""
    scoring: list[float] = field(default_factory=list)
    """Seconds for a group of GROUP answers that differ, with the same."""
    given: list[tuple[str, GroupScore]] = field(default_factory=list)
    """Answers by hand, and what they are worth."""


async def check(task: Task, scorer: Scorer, other: Scorer, seeds: Sequence[int]) -> TaskReport:
    """Try a task with two servers."""
    report = TaskReport()
    await _make(task, scorer, other, seeds, report)
    if report.questions and scorer.conversing(report.questions[0].known_origin()):
        found = await check_conversations(scorer, other, report.questions, ODD, GROUP)
        report.problems += found.problems
        report.scoring += found.scoring
    elif report.questions:
        executed = task.task in Families(task.families, task.defined).executing
        if not executed:
            await _own_answers(scorer, report)
        await _odd_answers(scorer, report)
    return report


async def _make(task: Task, scorer: Scorer, other: Scorer, seeds: Sequence[int], report: TaskReport) -> None:
    for seed in seeds:
        try:
            seconds, (question,) = await _timed(lambda seed=seed: scorer.make([task.request(seed)]))  # type: ignore[misc]
            (again,) = await other.make([task.request(seed)])
        except ProtocolError as error:
            report.problems.append(f"seed {seed}: no question: {error}; what its process said stands above")
            return
        report.making.append(seconds)
        report.questions.append(question)
        if again != question:
            report.problems.append(
                f"seed {seed}: not deterministic: one process made {question.prompt!r:.200}, answer "
                f"{question.answer!r:.80}, another {again.prompt!r:.200}, answer {again.answer!r:.80}; all that is "
                "random has to come from the seed"
            )
            return
    if (
        len({(question.prompt, question.answer, repr(question.metadata)) for question in report.questions})
        == 1
        < len(seeds)
    ):
        report.problems.append(f"all {len(seeds)} seeds give the same question")


async def _own_answers(scorer: Scorer, report: TaskReport) -> None:
    """Scores each question's own answer, and reports those that do not earn 1."""
    asked = [question for question in report.questions if question.answer is not None]
    found = [await _score(scorer, question, [question.answer or ""]) for question in asked]
    wrong = [q for q, score in zip(asked, found, strict=True) if score.rewards[0] < FULL_ANSWER]
    report.problems += _failures(found, "a question's own answer")
    if wrong:
        report.problems.append(
            f"of {len(asked)} questions {len(wrong)} do not give 1 for their own answer: such as "
            f"{wrong[0].prompt!r:.200}, answer {wrong[0].answer!r:.80}"
        )


async def _odd_answers(scorer: Scorer, report: TaskReport) -> None:
    question = report.questions[0]
    found = await _score(scorer, question, ODD)
    report.problems += _failures([found], "an odd answer", raising=False)
    if found.killed:
        return  # every answer may take that long, and its process say the same
    for number, question in enumerate(report.questions):
        answers = [f"{number}{letter}" for letter in "abcdefgh"[:GROUP]]
        seconds, _ = await _timed(lambda q=question, a=answers: _score(scorer, q, a))  # type: ignore[misc]
        report.scoring.append(seconds)
    share = sorted(report.scoring)[len(report.scoring) // 2] / Limits().cpu_s
    if share > SLOW_SHARE:
        report.problems.append(
            f"slow: a question and {GROUP} answers take {share:.0%} of the second of processor time that they have; "
            "on a busy machine they are killed"
        )


def _failures(found: Sequence[GroupScore], what: str, *, raising: bool = True) -> list[str]:
    killed, errors = sum(score.killed for score in found), sum(score.errors for score in found)
    problems = []
    if killed:
        problems.append(
            f"{killed} times scoring {what} was ended: it took all of its time or memory, or tried what no scorer may "
            "(to open, import, execute, connect): what its process said stands above"
        )
    if errors and raising:
        problems.append(f"{errors} times scoring {what} raised, or gave no number from 0 to 1")
    return problems


async def _score(scorer: Scorer, question: Question, answers: Sequence[str]) -> GroupScore:
    return await scorer.score(question.known_origin(), None, [f"<answer>{answer}</answer>" for answer in answers])


async def give(scorer: Scorer, question: Question, answer: str) -> GroupScore:
    """Returns what an answer by hand is worth."""
    return await _score(scorer, question, [answer])


async def _timed(work: Callable[[], Awaitable[Value]]) -> tuple[float, Value]:
    began = time.perf_counter()
    found = await work()
    return time.perf_counter() - began, found
