"""Computes what was learned of each task, format and content apart, over all nodes or of one. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from swarm.records.history import History, NodeHistory

POINTS = 60
"""Points of a curve: the figures of single rounds are of a question or two."""
MOST_TASKS = 64


class _Mean:
    """Takes the mean of one task's figures over one stretch of rounds."""

    __slots__ = ("asked", "counted", "reward", "tagged", "tagged_reward")

    def __init__(self) -> None:
        self.asked = 0
        self.counted = 0
        """Times at which its tags were counted, too."""
        self.reward = self.tagged = self.tagged_reward = 0.0

    def add(self, reward: float, tag_rate: float) -> None:
        self.asked += 1
        self.reward += reward
        if not math.isnan(tag_rate):
            self.counted += 1
            self.tagged += tag_rate
            self.tagged_reward += reward

    def figures(self) -> tuple[float, float | None, float | None]:
        """Returns mean reward; share of tagged completions; mean reward of these."""
        share = self.tagged / self.counted if self.counted else None
        given = min(1.0, self.tagged_reward / self.tagged) if self.tagged > 0 else None
        return round(self.reward / self.asked, 4), _short(share), _short(given)


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def tasks_of(history: History, node: str = "") -> dict[str, Any]:
    """Returns task -> curves over stretches of rounds, as many as POINTS.

    Args:
        node: of this one alone; empty: of all, each with the same weight per round.
    """
    nodes = [of_node for name, of_node in history.items() if not node or name == node]
    rounds = max((of_node.rounds_done for of_node in nodes), default=0)
    stretch = max(1, math.ceil(rounds / POINTS))
    found: dict[str, dict[int, _Mean]] = {}
    for of_node in nodes:
        _add(found, of_node, stretch)
    kept = sorted(found, key=lambda task: (-sum(mean.asked for mean in found[task].values()), task))[:MOST_TASKS]
    return {
        "rounds": rounds,
        "stretch": stretch,
        "tasks": {task: _curve(found[task], stretch) for task in sorted(kept)},
    }


def _add(found: dict[str, dict[int, _Mean]], node: NodeHistory, stretch: int) -> None:
    for task, held in node.tasks.items():
        of_task = found.setdefault(task, {})
        for place, reward, tag_rate in zip(held.places, held.reward, held.tag_rate, strict=True):
            at = node.rounds[place] // stretch
            (of_task.get(at) or of_task.setdefault(at, _Mean())).add(reward, tag_rate)


def _curve(means: dict[int, _Mean], stretch: int) -> dict[str, Any]:
    ordered = sorted(means)
    columns: Iterable[tuple[Any, ...]] = zip(*(means[at].figures() for at in ordered), strict=True)
    reward, tagged, given = columns
    return {"rounds": [at * stretch for at in ordered], "reward": reward, "tagged": tagged, "given_tagged": given}
