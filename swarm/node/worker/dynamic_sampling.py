"""Dynamic sampling: groups without a signal are followed by groups to fresh questions (DAPO, arXiv:2503.14476, 3.2).

    slots 0 .. I-1 ─sample, score─▶ m of them without an advantage ─▶ slots I .. I+m-1 ─sample, score─▶ ...

It ends when I groups have a signal, or after `SWARM_DYNAMIC_SAMPLING` attempts. The question of a slot is the one that
the run draws for node, round and slot, so that peers verify those of later attempts as all others. What is sampled is a
function of the weights and of seed, node, round and attempt: a node that was killed samples the same again on a CPU.

A round's reward is measured on the first I slots: how many more follow depends on what these earned, and a mean over
all of them would be above what the policy earns.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from swarm.algo.advantages import is_informative
from swarm.errors import ProtocolError
from swarm.node.sharing.verification import score_groups
from swarm.node.worker.context import OwnQuestion, WorkerContext
from swarm.node.worker.steps import Scores
from swarm.types import RolloutGroup, RoundKey
from swarm.wire.messages import CompletionsFile


class SampleFunction(Protocol):
    """Gives completions to some questions."""

    def __call__(self, questions: list[OwnQuestion], *, attempt: int = 0) -> Awaitable[list[RolloutGroup]]:
        """Attempts are counted from 0."""


def lacking(wanted: int, scores: Scores) -> int:
    """Returns how many groups with a signal are still missing of those that are wanted."""
    return wanted - sum(
        not isinstance(score, ProtocolError) and is_informative(score.rewards) for score in scores.values()
    )


def slots_before(sampled: CompletionsFile | None, local: int, attempts: int) -> int:
    """Returns the slots that a former life sampled for in so many attempts at most; I where it left nothing, or had
    one."""
    return max(local, min(local * attempts, len(sampled.groups) if sampled else 0))


async def sample_until_informative(
    ctx: WorkerContext, key: RoundKey, questions: list[OwnQuestion], sample: SampleFunction
) -> tuple[list[RolloutGroup], Scores]:
    """Groups to the questions of the first attempt and, while some have no signal and attempts are left, to the next.

    Returns:
        The groups of all attempts, by slot, and the scores of those that were looked at.
    """
    groups, scores, wanted = await sample(questions), Scores(), len(questions)
    asked, fresh = ctx.settings.local_groups, groups
    for attempt in range(1, ctx.settings.dynamic_sampling):
        found = await score_groups(ctx.task_source, fresh)
        scores |= {group.slot: score for group, score in zip(fresh, found, strict=True)}
        if not (missing := lacking(wanted, scores)):
            break
        more = [one for one in await ctx.ask(key, asked + missing) if one.slot >= asked]
        asked += missing
        fresh = await sample(more, attempt=attempt)
        groups = [*groups, *fresh]
    return groups, scores
