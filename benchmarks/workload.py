"""The same questions, scores and advantages for every side.

The scorer is the product's own, in its child process, and its time counts. Its rewards are then replaced by a pattern
that makes a given share of the groups informative, so that every side trains on as much in every round, whatever it
happened to sample: half of a group's completions earn 1, or none does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal
from torch import Tensor

from swarm.algo.advantages import group_advantages
from swarm.policy.snapshot import PolicySnapshot
from swarm.tasks.family import QuestionRequest
from swarm.tasks.gym.profiles import SAPO_TASKS
from swarm.tasks.scoring import GroupScore, Scorer
from swarm.types import Completion, Policy, Question, TrainGroup


@dataclass(frozen=True)
class Sizes:
    """One round: I questions, G completions each, of at most so many tokens."""

    questions: int
    group_size: int
    max_new_tokens: int

    @property
    def completions(self) -> int:
        """Rollouts of a round, of one answer each."""
        return self.questions * self.group_size


class Scoring:
    """A Scorer for callers without an event loop."""

    def __init__(self, portal: BlockingPortal, scorer: Scorer) -> None:
        self._portal = portal
        self._scorer = scorer

    def ask(self, rounds: int, sizes: Sizes, seed: int = 7) -> list[list[Question]]:
        """The questions of some rounds, drawn from the nine SAPO tasks in turn."""
        requests = [
            QuestionRequest(SAPO_TASKS[n % len(SAPO_TASKS)], "tiny", seed + n) for n in range(rounds * sizes.questions)
        ]
        questions = self._portal.call(self._scorer.make, requests)
        return [questions[start : start + sizes.questions] for start in range(0, len(questions), sizes.questions)]

    def score(self, questions: Sequence[Question], texts: Sequence[Sequence[str]]) -> list[GroupScore]:
        """Verdicts on each question's texts, all asked for at once as a node does."""
        return self._portal.call(self._score, questions, texts)

    async def _score(self, questions: Sequence[Question], texts: Sequence[Sequence[str]]) -> list[GroupScore]:
        found: dict[int, GroupScore] = {}

        async def one(index: int) -> None:
            question = questions[index]
            found[index] = await self._scorer.score(question.known_origin(), question.prompt, texts[index])

        async with anyio.create_task_group() as tasks:
            for index in range(len(questions)):
                tasks.start_soon(one, index)
        return [found[index] for index in range(len(questions))]


@contextmanager
def scoring() -> Iterator[Scoring]:
    """A running scorer."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Scorer()) as scorer:
        yield Scoring(portal, scorer)


def pattern(group: int, group_size: int, share: float) -> tuple[float, ...]:
    """Rewards of the group at this position of its round: the first of every 1 / share groups are informative."""
    informative = int((group + 1) * share) > int(group * share)
    return tuple(float(informative and n % 2 == 0) for n in range(group_size))


def to_train(questions: Sequence[Question], answers: Sequence[Sequence[Completion]], share: float) -> list[TrainGroup]:
    """What the trainer gets of one round."""
    return [
        TrainGroup(question.prompt, tuple(group), group_advantages(pattern(index, len(group), share)))
        for index, (question, group) in enumerate(zip(questions, answers, strict=True))
    ]


def snapshot_of(policy: Policy) -> PolicySnapshot:
    """What a policy of a model that is here holds."""
    snapshot = policy.snapshot()
    assert isinstance(snapshot, PolicySnapshot)
    return snapshot


def first_gradient(policy: Policy) -> dict[str, Tensor]:
    """Of the policy's only update so far, by parameter name: Adam's first moment is a tenth of it."""
    return {name: moment / 0.1 for name, moment in snapshot_of(policy).optimizer.first_moments.items()}
