"""How fast a run goes, who took part when, and how rewards spread: pure functions of what the rows add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from statistics import median, quantiles

import msgspec

from swarm.records.hints import Recent

LAST = 20
"""Rows of a node that its pace is taken of."""
MOST_ROUNDS = 10_000
"""The last ones, of which it is said how many nodes took part."""
MOST_SPANS = 100
"""The last ones that are told apart."""


class Span(msgspec.Struct, frozen=True):
    """Rounds one after another in which as many nodes took part."""

    first: int
    """Counted from 0."""
    last: int
    nodes: int
    """With a row of the round."""


class Spread(msgspec.Struct, frozen=True):
    """Of some rewards."""

    count: int
    least: float
    lower_quartile: float
    median: float
    upper_quartile: float
    most: float


def seconds_per_round(rows: Iterable[Recent]) -> float | None:
    """Median time from the end of one round of a node to the end of its next one; None for fewer than two rows.

    A pause, as of a node that was stopped and went on, is one of many and moves no median.
    """
    last = list(rows)[-LAST:]
    later = [(a, b) for a, b in pairwise(last) if b.round > a.round and b.timestamp >= a.timestamp]
    return median((b.timestamp - a.timestamp) / (b.round - a.round) for a, b in later) if later else None


def tokens_per_second(rows: Iterable[Recent]) -> float | None:
    """Tokens that a node sampled in the time of its last rounds; None for fewer than two rows."""
    last = list(rows)[-LAST:]
    took = last[-1].timestamp - last[0].timestamp if last else 0.0
    return sum(row.tokens_generated for row in last[1:]) / took if took > 0 else None


def nodes_over_time(rounds_of_nodes: Iterable[Collection[int]], rounds: int) -> list[Span]:
    """How many nodes took part in each round, rounds of equal numbers together.

    Args:
        rounds_of_nodes: for each node the rounds with a row of it.
        rounds: only rounds before this one count.
    """
    begin = max(0, rounds - MOST_ROUNDS)
    nodes = Counter(number for of_node in rounds_of_nodes for number in of_node if begin <= number < rounds)
    spans: list[Span] = []
    for number in range(min(nodes, default=rounds), rounds):
        if spans and spans[-1].nodes == nodes[number]:
            spans[-1] = msgspec.structs.replace(spans[-1], last=number)
        else:
            spans.append(Span(number, number, nodes[number]))
    return spans[-MOST_SPANS:]


def spread(rewards: Sequence[float]) -> Spread | None:
    """The five numbers; None for fewer than two rewards."""
    if len(rewards) < 2:
        return None
    lower, middle, upper = quantiles(rewards, n=4, method="inclusive")
    return Spread(len(rewards), min(rewards), lower, middle, upper, max(rewards))
