"""Computes what was learned of each task, format and content apart, over all nodes or of one. Pure."""

from __future__ import annotations

import math
from statistics import fmean
from typing import Any

from swarm.records.history import History

POINTS = 60
"""Points of a curve: the figures of single rounds are of a question or two."""
MOST_TASKS = 64
_Asked = list[tuple[float, float]]
"""Mean reward and share of tagged completions, NaN where that was not counted, of each time that a task was asked."""


def tasks_of(history: History, node: str = "") -> dict[str, Any]:
    """Returns task -> curves over stretches of rounds, as many as POINTS.

    Args:
        node: of this one alone; empty: of all, each with the same weight per round.
    """
    nodes = [of_node for name, of_node in history.items() if not node or name == node]
    rounds = max((of_node.rounds_done for of_node in nodes), default=0)
    stretch = max(1, math.ceil(rounds / POINTS))
    found: dict[str, dict[int, _Asked]] = {}
    for of_node in nodes:
        for task, held in of_node.tasks.items():
            of_task = found.setdefault(task, {})
            for place, reward, tag_rate in zip(held.places, held.reward, held.tag_rate, strict=True):
                of_task.setdefault(of_node.rounds[place] // stretch, []).append((reward, tag_rate))
    kept = sorted(found, key=lambda task: (-sum(map(len, found[task].values())), task))[:MOST_TASKS]
    return {
        "rounds": rounds,
        "stretch": stretch,
        "tasks": {task: _curve(found[task], stretch) for task in sorted(kept) if found[task]},
    }


def _curve(asked: dict[int, _Asked], stretch: int) -> dict[str, Any]:
    reward, tagged, given = zip(*(_figures(asked[at]) for at in sorted(asked)), strict=True)
    rounds = [at * stretch for at in sorted(asked)]
    return {"rounds": rounds, "reward": reward, "tagged": tagged, "given_tagged": given}


def _figures(asked: _Asked) -> tuple[float, float | None, float | None]:
    """Returns mean reward; share of tagged completions; mean reward of these."""
    counted = [(reward, tag_rate) for reward, tag_rate in asked if not math.isnan(tag_rate)]
    earned, tagged = sum(reward for reward, _ in counted), sum(tag_rate for _, tag_rate in counted)
    share = round(tagged / len(counted), 4) if counted else None
    given = round(min(1.0, earned / tagged), 4) if tagged > 0 else None
    return round(fmean(reward for reward, _ in asked), 4), share, given
