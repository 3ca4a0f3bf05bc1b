"""Verification: a peer's groups regenerated and scored by this node, and what their publisher claims held against it.

    groups ─a few at a time─▶ regenerate, compare, score ─▶ hold the publisher's claims against it ─▶ GroupVerdict each

One file costs at most MOST_KILLED answers whose scoring has to be killed, or as much processor time in slow ones beyond
what honest ones take, and those of one request more. Then the rest of it is refused as `scorer_abuse`. That is no proof
of malice, as a model can write endless loops in good faith: a peer is quarantined once a second file of the last rounds
is like that (see swarm.node.sharing.selection).

    killed   its child was ended: too much time or memory; or it tried what no honest text makes a library try (to
             start, to connect, to write: see swarm.tasks.sandbox)
    slow     it came to an end, and took more than a tenth of the second that it has; of that HONEST_SHARE an answer is
             free, as sums and integrals take it in good faith
    neither  it raised, or met a closed door that honest text can meet: its reward is 0, its author loses nothing else
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

import anyio
import msgspec

from swarm.errors import ProtocolError
from swarm.tasks.family import QuestionRequest
from swarm.tasks.scoring import GroupScore
from swarm.tasks.scoring_messages import Replied
from swarm.types import Completion, Origin, Question, RolloutGroup, ScoredGroup
from swarm.wire.codec import Claims

Result = TypeVar("Result")

GROUPS_AT_ONCE = 8
"""Groups of one peer's file, so that the own groups never wait behind more than these to be scored."""
TEXTS_AT_ONCE = 16
"""Completions of one request: each may cost the scorer a second."""
MOST_KILLED = 8
"""Answers of one file whose scoring had to be killed, at a second or two each, before the rest of it is refused."""
HONEST_SHARE = 0.05
"""Share of a second, on average, is what slow answers may take of each answer of a file: honest ones to an infinite
sum, which is what costs most, take 0.035."""
SAME_REWARD = 1e-6
"""A claimed reward is true if it is so near to this node's own."""


class TaskSource(Protocol):
    """Questions and scores; swarm.tasks.scoring.Scorer gives them from bounded child processes."""

    async def make(self, requests: Sequence[QuestionRequest]) -> list[Question]:
        """Returns the questions that were asked for, in order."""

    async def score(
        self, origin: Origin, claimed_prompt: str | None, completions: Sequence[str | Completion]
    ) -> GroupScore:
        """Score one group: texts, or conversations. Raises ProtocolError where the question, or a reply to the model,
        is not what its origin gives."""

    async def reply(self, origin: Origin, conversations: Sequence[Sequence[str]]) -> Replied:
        """Returns what a question's environment says after these turns of a model."""


class Cost(NamedTuple):
    """Adds up what answers took of the reader's time."""

    killed: int = 0
    slow: float = 0.0
    """Slow answers as of swarm.tasks.scoring.GroupScore."""
    answers: int = 0
    """How many there were."""

    def plus(self, other: Cost) -> Cost:
        """Returns the sum of this cost and another."""
        return Cost(self.killed + other.killed, self.slow + other.slow, self.answers + other.answers)

    @property
    def excess(self) -> float:
        """Beyond what honest answers cost, in answers that had to be killed."""
        return self.killed + max(0.0, self.slow - HONEST_SHARE * self.answers)


NO_COST = Cost()


class GroupVerdict(NamedTuple):
    """Holds what was found of one group."""

    scored: ScoredGroup | None
    """None: refused."""
    refusal: ProtocolError | None
    false_claims: int = 0
    """Completions whose published reward, and published answers, that are not what this node found."""
    cost: Cost = NO_COST
    """What scoring its answers took."""
    errors: int = 0


async def verify(
    source: TaskSource,
    groups: Sequence[RolloutGroup],
    claims: Sequence[Claims],
    *,
    trusting: bool,
    cost: Cost = NO_COST,
) -> AsyncIterator[list[GroupVerdict]]:
    """Verdicts in order, a part of the groups at a time; the caller may let others go first in between.

    Args:
        claims: one per group.
        trusting: begin with GROUPS_AT_ONCE groups, not with one: its publisher has a record.
        cost: of the same file, before.

    Raises:
        ProtocolError: `scorer_abuse`, after the verdicts that show it; all that was given is to be forgotten.
    """
    start, size = 0, GROUPS_AT_ONCE if trusting else 1
    while start < len(groups):
        part = slice(start, start + size)
        pairs = zip(groups[part], claims[part], strict=True)
        verdicts = await all_at_once([partial(_verdict, source, group, claimed) for group, claimed in pairs])
        yield verdicts
        for verdict in verdicts:
            cost = cost.plus(verdict.cost)
        if cost.excess > MOST_KILLED:
            raise ProtocolError("scorer_abuse", f"its answers cost as much as {cost.excess:.3g} that have to be killed")
        start += size
        size = 1 if cost.excess else min(GROUPS_AT_ONCE, 2 * size)


async def all_at_once(calls: Sequence[Callable[[], Awaitable[Result]]]) -> list[Result]:
    """Makes calls at the same time, so that what they ask shares a child; returns what they give, in order."""
    found: dict[int, Result] = {}

    async def make(position: int, call: Callable[[], Awaitable[Result]]) -> None:
        found[position] = await call()

    async with anyio.create_task_group() as tasks:
        for position, call in enumerate(calls):
            tasks.start_soon(make, position, call)
    return [found[position] for position in range(len(calls))]


async def _verdict(source: TaskSource, group: RolloutGroup, claims: Claims) -> GroupVerdict:
    try:
        score = await _score_in_slices(source, group)
    except ProtocolError as error:
        return GroupVerdict(None, error.as_value(), cost=Cost(error.killed, error.slow, len(group.completions)))
    cost = _cost(score)
    if cost.excess > MOST_KILLED:  # for which its whole file is refused
        return GroupVerdict(None, None, cost=cost)
    rewards = false_rewards(claims, score)
    if lie := false_answer(claims, score.question, group.slot):
        return GroupVerdict(None, lie, rewards + 1, cost, score.errors)
    return GroupVerdict(ScoredGroup(group, score.rewards, score.answered), None, rewards, cost, score.errors)


def _cost(score: GroupScore) -> Cost:
    return Cost(score.killed, score.slow, len(score.rewards))


async def _score_in_slices(source: TaskSource, group: RolloutGroup) -> GroupScore:
    """A group may have a thousand completions; after the first few that have to be killed the others are not tried."""
    parts: list[GroupScore] = []
    for start in range(0, len(group.completions), TEXTS_AT_ONCE):
        some = group.completions[start : start + TEXTS_AT_ONCE]
        try:
            parts.append(await score_group(source, msgspec.structs.replace(group, completions=some)))
        except ProtocolError as error:
            error.killed += sum(part.killed for part in parts)
            error.slow += sum(part.slow for part in parts)
            raise
        if _cost(_joined(parts)).excess > MOST_KILLED:
            break
    return _joined(parts)


def _joined(parts: Sequence[GroupScore]) -> GroupScore:
    return GroupScore(
        question=parts[0].question,
        rewards=tuple(reward for part in parts for reward in part.rewards),
        answered=tuple(flag for part in parts for flag in part.answered),
        killed=sum(part.killed for part in parts),
        errors=sum(part.errors for part in parts),
        slow=sum(part.slow for part in parts),
    )


def false_answer(claims: Claims, question: Question, slot: int) -> ProtocolError | None:
    """Returns the refusal of a group whose publisher says another ground truth than the regenerated question has.

    The question's text was the same, so no other version or machine explains it.
    """
    if claims.answer is None or question.answer is None or claims.answer == question.answer:
        return None
    return ProtocolError(
        "false_answer", f"the answer to group {slot} is {question.answer!r:.80}, not {claims.answer!r:.80}"
    )


def false_rewards(claims: Claims, score: GroupScore) -> int:
    """Completions whose claimed reward is not this node's own.

    They are counted and refuse nothing: where scoring was killed, here or there, for want of time or memory, the
    rewards of honest nodes differ as well. None of them is trained on anyway.
    """
    pairs = zip(claims.rewards, score.rewards, strict=True)
    return sum(claimed is not None and not abs(claimed - own) <= SAME_REWARD for claimed, own in pairs)


async def score_groups(source: TaskSource, groups: Sequence[RolloutGroup]) -> list[GroupScore | ProtocolError]:
    """Score groups at the same time, each with its own result or refusal, in order; nobody's claims are looked at."""

    async def score(group: RolloutGroup) -> GroupScore | ProtocolError:
        try:
            return await score_group(source, group)
        except ProtocolError as error:
            return error.as_value()

    return await all_at_once([partial(score, group) for group in groups])


async def score_group(source: TaskSource, group: RolloutGroup) -> GroupScore:
    """Returns the verdict on one group. Raises ProtocolError where its question is not what its origin gives."""
    return await source.score(group.question.known_origin(), group.question.prompt, group.completions)
