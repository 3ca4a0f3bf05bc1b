"""The groups of a stage for people: question, completions side by side, rewards, advantages, who trained on them. Pure.

Rewards are those that the publisher claims; peers verify them and train on what they find themselves. So a claim that
others refused stands beside its refusals in the health of the run, not here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import fmean
from typing import Any, NamedTuple

from msgspec import UNSET

from swarm.algo.advantages import group_advantages
from swarm.records.history import History, NodeHistory
from swarm.web.harmless import cut
from swarm.wire.messages import GroupInfo, RolloutEntry, RolloutFile

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


def file_document(file: RolloutFile, history: History) -> dict[str, Any]:
    """Makes the document of what a node published in one stage."""
    slots = sorted(file.rollouts, key=_slot_order)[:MOST_GROUPS]
    groups = [group_document(file, slot, history) for slot in slots]
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


def _slot_order(slot: str) -> tuple[int, str]:
    return (int(slot), slot) if slot.isascii() and slot.isdigit() and len(slot) < 10 else (2**31, slot)


def group_document(file: RolloutFile, slot: str, history: History) -> dict[str, Any]:
    """Returns one group."""
    entries, info = file.rollouts[slot][:MOST_COMPLETIONS], file.groups.get(slot, GroupInfo(task=""))
    rewards = [_finite(entry.reward) for entry in entries]
    known = [reward for reward in rewards if reward is not None]
    advantages = group_advantages(known) if known and len(known) == len(rewards) else None
    name = f"{file.peer_id}/{file.round}/{file.stage}/{slot}"
    return {
        "slot": cut(slot, 16),
        "task": cut(info.task, 80),
        "question": cut(entries[0].prompt, LONGEST) if entries else "",
        "answer": None if info.answer is None else cut(info.answer, LONGEST),
        "shows": [cut(text, 160) for text in info.origin.context[:MOST_GROUPS]] if info.origin else [],
        "mean": fmean(known) if known else None,
        "completions": [
            _completion(entry, reward, advantages[place] if advantages else None)
            for place, (entry, reward) in enumerate(zip(entries, rewards, strict=True))
        ],
        "left_out": max(0, len(file.rollouts[slot]) - len(entries)),
        "adopters": [adoption._asdict() for adoption in adoptions(history, name, info.task)],
    }


def _completion(entry: RolloutEntry, reward: float | None, advantage: float | None) -> dict[str, Any]:
    turns = () if entry.turns is UNSET else entry.turns
    return {
        "text": cut(entry.response, LONGEST),
        "turns": [{"text": cut(turn.response, LONGEST), "reply": cut(turn.reply, LONGEST)} for turn in turns],
        "reward": reward,
        "advantage": advantage,
        "finished": entry.finished,
    }


def _finite(reward: float | None) -> float | None:
    return reward if reward is not None and math.isfinite(reward) and abs(reward) < 1e6 else None


def adoptions(history: History, group: str, task: str) -> list[Adoption]:
    """Returns who trained on a group, and what they earned on its task before and after.

    Args:
        group: `node/round/stage/slot`, as rows name it.
    """
    found = [_adoption(node, of_node, place, task) for node, of_node, place in _adopters(history, group)]
    return sorted(found, key=lambda adoption: (adoption.round, adoption.node))[:MOST_ADOPTERS]


def _adopters(history: History, group: str) -> Iterable[tuple[str, NodeHistory, int]]:
    return ((node, of_node, place) for node, of_node in history.items() for place in of_node.places_trained_on(group))


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
