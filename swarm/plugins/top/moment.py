"""The one answer of the moment: of the newest groups the one that is most worth reading; pure.

a node's first right answer to a task   >   the right answer to what was rarely answered   >   any answer
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from swarm.records.groups import Group, Shown
from swarm.records.history import History, NodeHistory
from swarm.views.text import shorten

FULL = 0.999
"""A claimed reward of at least this is a right answer."""
LONGEST = 2_000
"""Characters of a question or an answer."""


class Moment(NamedTuple):
    """One answer, and why it is shown."""

    headline: str
    question: str
    answer: str
    group: str
    """Name as rows name it."""


class _Candidate(NamedTuple):
    rank: int
    rarity: float
    """Share of the group's answers that are not right."""
    name: str


def moment_of(history: History, groups: Sequence[Group]) -> Moment | None:
    """Chooses the group most worth reading among the newest ones; None where there are none.

    Args:
        history: up to the rounds before theirs, or further.
    """
    ranked = [(_candidate(history.get(group.node), group), group) for group in groups if group.completions]
    if not ranked:
        return None
    best, group = max(ranked, key=lambda one: one[0])
    shown = next(filter(is_right, group.completions), group.completions[0])
    return Moment(_headline(best, group), group.question[:LONGEST], shown.response[:LONGEST], group.name)


def is_right(shown: Shown) -> bool:
    """Tells whether it is right, by what its publisher claims."""
    return shown.claimed_reward is not None and shown.claimed_reward >= FULL


def _candidate(history: NodeHistory | None, group: Group) -> _Candidate:
    right = sum(map(is_right, group.completions))
    rarity = 1 - right / len(group.completions)
    if not right:
        return _Candidate(0, 0.0, group.name)
    return _Candidate(2 if _is_first(history, group) else 1, rarity, group.name)


def _is_first(history: NodeHistory | None, group: Group) -> bool:
    """Tells whether in no earlier round a completion of the node to this task can have been right.

    Of a round the mean over the task's completions is known. One right answer makes it at least one in all of the
    node's completions of that round. Where its rows do not reach up to this round, nobody knows.
    """
    if history is None or not 0 < group.round <= history.rounds_done:
        return False
    task = history.tasks.get(group.task)
    if task is None:
        return True
    earlier = [(p, r) for p, r in zip(task.places, task.reward, strict=True) if history.rounds[p] < group.round]
    size = len(group.completions)
    return all(reward * size * max(1.0, history.figure("local_groups", place)) < FULL for place, reward in earlier)


def _headline(best: _Candidate, group: Group) -> str:
    who, task = shorten(group.node, 24), shorten(group.task, 40) or "question"
    right, of = sum(map(is_right, group.completions)), len(group.completions)
    if best.rank == 2:
        return f"{who} solved its first {task} in round {group.round}, {right} of {of} answers"
    if best.rank == 1:
        return f"{who} solved {task} in round {group.round}, {right} of {of} answers"
    return f"{who} answered {task} in round {group.round}; none of {of} answers is right"
