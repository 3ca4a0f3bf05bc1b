"""Tells who learned from whom: groups of each node that each other one trained on. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Any

from swarm.records.history import History

MOST = 64
"""Nodes on each side."""


def matrix(history: History) -> dict[str, Any]:
    """Origins and adopters, and the groups of each pair: `counts[adopter][origin]`; those of the last round as `last`.

    Of too many nodes those that took part in the most are kept, and the groups of the others are counted.
    """
    given, taken = Counter[str](), Counter[str]()
    for node, of_node in history.items():
        given.update(of_node.trained_on)
        taken[node] += of_node.trained_on.total()
    trains = [node for node, of_node in history.items() if len(of_node)]
    adopters = sorted(sorted(trains, key=lambda node: (-taken[node], node))[:MOST])
    origins = sorted(sorted({*given, *adopters}, key=lambda node: (-given[node], node))[:MOST])
    total, shown = given.total(), sum(history[a].trained_on[o] for a in adopters for o in origins)
    return {
        "origins": origins,
        "adopters": adopters,
        "counts": [[history[adopter].trained_on[origin] for origin in origins] for adopter in adopters],
        "last": [[history[adopter].last_trained_on.get(origin, 0) for origin in origins] for adopter in adopters],
        "left_out": total - shown,
    }
