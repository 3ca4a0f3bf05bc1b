"""Sums up what a probe of one task shows: shares over its questions, with their uncertainty. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

import msgspec

from swarm.records.pace import Share, wilson
from swarm.tasks.scoring import FULL_ANSWER, GroupScore
from swarm.types import Completion


class MeasuredTask(msgspec.Struct, frozen=True):
    """One task as a model does it."""

    task: str
    questions: int
    generations: int
    pass_at_1: Share
    pass_at_g: Share
    """Questions of which an answer is right."""
    reward: Share
    tagged: Share
    """Completions with a closed answer."""
    finished: Share
    informative: Share
    """Groups whose rewards are not all equal: others teach nothing."""
    seconds: float
    """Seconds of generation."""
    tokens: int
    """Tokens of all completions."""
    earned: int = 0
    """Completions with a reward."""


def measure(
    task: str, scores: Sequence[GroupScore], groups: Sequence[Sequence[Completion]], *, seconds: float
) -> MeasuredTask:
    """Sums up the groups of one task; there is at least one, and all have one size."""

    def share(value: Callable[[GroupScore], float]) -> Share:
        return wilson([value(score) for score in scores])

    return MeasuredTask(
        task=task,
        questions=len(scores),
        generations=len(scores[0].rewards),
        pass_at_1=share(lambda score: fmean(reward >= FULL_ANSWER for reward in score.rewards)),
        pass_at_g=share(lambda score: max(score.rewards) >= FULL_ANSWER),
        reward=share(lambda score: fmean(score.rewards)),
        tagged=share(lambda score: fmean(score.answered)),
        finished=wilson([fmean(one.finished for one in group) for group in groups]),
        informative=share(lambda score: len(set(score.rewards)) > 1),
        earned=sum(reward > 0 for score in scores for reward in score.rewards),
        seconds=seconds,
        tokens=sum(len(turn.token_ids or ()) for group in groups for one in group for turn in one.every_turn),
    )
