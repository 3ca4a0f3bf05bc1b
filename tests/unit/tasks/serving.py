"""A scorer with some tasks, asked from a test's own thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

from swarm.node.sharing.verification import all_at_once
from swarm.tasks.bounded import Limits
from swarm.tasks.family import QuestionRequest
from swarm.tasks.scoring import GroupScore, Scorer
from swarm.tasks.scoring_messages import Replied
from swarm.types import Completion, Question
from tests.unit.tasks.dataset.making import request


class Serving:
    """Questions of defined tasks, what their environments say, and what completions earn."""

    def __init__(self, portal: BlockingPortal, scorer: Scorer, tasks: Mapping[str, Mapping[str, Any]]) -> None:
        self.portal, self.scorer, self._tasks = portal, scorer, tasks

    def make(self, *requests: QuestionRequest) -> list[Question]:
        return self.portal.call(self.scorer.make, requests)

    def question(self, name: str = "mine", seed: int = 0, index: int = 0) -> Question:
        (question,) = self.make(request(name, self._tasks[name], seed, index))
        return question

    def score(self, question: Question, *completions: str | Completion) -> GroupScore:
        return self.portal.call(self.scorer.score, question.known_origin(), question.prompt, completions)

    def scores(self, *groups: tuple[Question, Sequence[str | Completion]]) -> list[GroupScore]:
        """What groups earn that are scored together."""
        calls = [partial(self.scorer.score, asked.known_origin(), asked.prompt, texts) for asked, texts in groups]
        return self.portal.call(all_at_once, calls)

    def reply(self, question: Question, *conversations: Sequence[str]) -> Replied:
        return self.portal.call(self.scorer.reply, question.known_origin(), conversations)


@contextmanager
def serving(
    tasks: Mapping[str, Mapping[str, Any]], families: Sequence[str] = (), limits: Limits | None = None
) -> Iterator[Serving]:
    scorer = Scorer(1, families, tasks, limits=limits or Limits(wall_s=60.0))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(scorer):
        yield Serving(portal, scorer, tasks)


def tagged(*answers: str) -> list[str]:
    return [f"<answer>{answer}</answer>" for answer in answers]
