"""The groups of a stage for people: question, completions side by side, rewards, advantages, who trained on them. Pure.

Rewards are those that the publisher claims; peers verify them and train on what they find themselves. So a claim that
others refused stands beside its refusals in the health of the run, not here.
"""

from __future__ import annotations

from statistics import fmean
from typing import Any, NamedTuple

from msgspec import UNSET

from swarm.records.groups import Shown, group_of, slots_of
from swarm.records.history import History, NodeHistory
from swarm.web.harmless import cut
from swarm.wire.messages import RolloutFile

MOST_GROUPS = 64
MOST_COMPLETIONS = 64
"""Completions of one group."""
LONGEST = 6000
"""Characters of a question or a completion."""
WINDOW = 10
"""Rounds before and after a node trained on a group, in which its own rewards of that task are compared."""
MOST_ADOPTERS = 32


class Adoption(NamedTuple):
    """A node trained on a group."""

    node: str
    round: int
    before: float | None
    """Its mean reward on the task in the WINDOW rounds before, that round with them; None: it was not asked."""
    after: float | None
    """In the WINDOW rounds after."""
    followed: int
    """Rounds that it has done since then, at most WINDOW."""


def file_document(file: RolloutFile, history: History, scaling: str = "std") -> dict[str, Any]:
    """Makes the document of what a node published in one stage.

    Args:
        scaling: name of the run's scaling of advantages.
    """
    slots = slots_of(file)[:MOST_GROUPS]
    groups = [group_document(file, slot, history, scaling) for slot in slots]
    policy = file.policy
    said = {"licence": policy.licence, "consent": policy.consent}
    return {
        "node": file.peer_id,
        "round": file.round,
        "stage": file.stage,
        "model": cut(policy.model, 80),
        "rounds_trained": policy.rounds_trained,
        "temperature": None if policy.temperature is UNSET else policy.temperature,
        **{name: "" if text is UNSET else cut(text, 80) for name, text in said.items()},
        "groups": groups,
        "left_out": max(0, len(file.rollouts) - len(slots)),
    }


def group_document(file: RolloutFile, slot: str, history: History, scaling: str) -> dict[str, Any]:
    """Returns one group."""
    group = group_of(file, slot, scaling)
    known = [shown.claimed_reward for shown in group.completions if shown.claimed_reward is not None]
    return {
        "slot": slot,
        "task": group.task,
        "question": cut(group.question, LONGEST),
        "answer": None if group.answer is None else cut(group.answer, LONGEST),
        "shows": [cut(text, 160) for text in group.origin.context[:MOST_GROUPS]] if group.origin else [],
        "mean": fmean(known) if known else None,
        "completions": [_completion(shown) for shown in group.completions[:MOST_COMPLETIONS]],
        "left_out": max(0, len(file.rollouts[slot]) - MOST_COMPLETIONS),
        "adopters": [
            adoption._asdict()
            for adoption in adoptions(history, f"{file.peer_id}/{file.round}/{file.stage}/{slot}", group.task)
        ],
    }


def _completion(shown: Shown) -> dict[str, Any]:
    return {
        "text": cut(shown.response, LONGEST),
        "turns": [{"text": cut(turn.response, LONGEST), "reply": cut(turn.reply, LONGEST)} for turn in shown.turns],
        "reward": shown.claimed_reward,
        "advantage": shown.advantage,
        "finished": shown.finished,
    }


def adoptions(history: History, group: str, task: str) -> list[Adoption]:
    """Returns who trained on a group, and what they earned on its task before and after.

    Args:
        group: `node/round/stage/slot`, as rows name it.
    """
    places = ((node, place) for node, of_node in history.items() for place in of_node.places_trained_on(group))
    found = [_adoption(node, history[node], place, task) for node, place in places]
    return sorted(found, key=lambda adoption: (adoption.round, adoption.node))[:MOST_ADOPTERS]


def _adoption(name: str, node: NodeHistory, place: int, task: str) -> Adoption:
    round_, held = node.rounds[place], node.tasks.get(task)
    before, after = list[float](), list[float]()
    for at, reward in zip(held.places, held.reward, strict=True) if held else ():
        apart = node.rounds[at] - round_
        if -WINDOW < apart <= 0:
            before.append(reward)
        elif 0 < apart <= WINDOW:
            after.append(reward)
    followed = max(0, min(WINDOW, node.rounds_done - 1 - round_))
    return Adoption(name, round_, fmean(before) if before else None, fmean(after) if after else None, followed)
