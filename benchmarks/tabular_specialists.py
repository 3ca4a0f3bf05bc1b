"""Specialists as tables of softmax policies: what a way to choose peers' groups could gain, before it is run.

    python -m benchmarks.tabular_specialists [--seeds 8] [--rounds 100]

Three nodes, six tables of 16 facts, eight answers. A node gives the right answer to its own two tables half of the time
and leans to some wrong one elsewhere. Each round it asks I facts by chance, eight samples each, and takes J informative
groups of its peers, of which only right answers count. One plain gradient step. Printed is a node's cumulative reward.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from swarm.algo.sampling import OwnRewards
from swarm.plugins.lab.learnability import LEAST

NODES, TABLES, FACTS, ANSWERS, SAMPLES = 3, 6, 16, 8, 8
STEP = 0.3
Table = NDArray[np.float64]
Weigh = Callable[[float], float]
"""Mean reward of the own questions of a task -> how often its groups are drawn beside others."""
WAYS: Mapping[str, Weigh] = {"uniform": lambda r: 1.0, "learnability": lambda r: max(LEAST, (1 - r) ** 2)}


class Asked(NamedTuple):
    """One group."""

    table: int
    fact: int
    answers: NDArray[np.int64]
    rewards: Table


def probabilities(logits: Table) -> Table:
    """Returns the softmax of one fact's logits."""
    grown = np.exp(logits - logits.max())
    return np.asarray(grown / grown.sum())


def run(seed: int, local: int, external: int, since: int, rounds: int, weigh: Weigh) -> float:
    """Returns the cumulative reward, mean over the nodes. `since`: the first round in which peers are heard."""
    rng = np.random.default_rng(seed)
    right = rng.integers(0, ANSWERS, (TABLES, FACTS))
    place = np.indices(right.shape)
    logits = 3.0 * rng.exponential(size=(NODES, TABLES, FACTS, ANSWERS))
    logits[:, *place, right] = 0.0
    for node in range(NODES):
        own = slice(2 * node, 2 * node + 2)
        logits[node, own] = 0.0
        logits[node, own, place[1][own], right[own]] = np.log(ANSWERS - 1)
    known = [OwnRewards() for _ in range(NODES)]
    total = 0.0
    for round_ in range(rounds):
        heard = external if round_ >= since else 0
        asked = [ask(rng, logits[node], right, local + external - heard) for node in range(NODES)]
        for node, groups in enumerate(asked):
            by_table = {table: [g.rewards.mean() for g in groups if g.table == table] for table in range(TABLES)}
            known[node].observe({str(table): float(np.mean(found)) for table, found in by_table.items() if found})
            total += float(np.mean([g.rewards.mean() for g in groups])) / NODES
        before = logits.copy()
        for node, groups in enumerate(asked):
            pool = [g for peer in range(NODES) if peer != node for g in asked[peer] if 0 < g.rewards.mean() < 1]
            means = known[node].means
            keys = [rng.exponential() / weigh(means.get(str(g.table), 0.0)) for g in pool]
            taken = [pool[place] for place in np.argsort(keys)[:heard]]
            for group, theirs in [*((g, False) for g in groups), *((g, True) for g in taken)]:
                learn(logits[node], before[node], group, theirs=theirs)
    return total


def ask(rng: np.random.Generator, logits: Table, right: NDArray[np.int64], count: int) -> list[Asked]:
    """Returns the groups of one node's round."""
    found = []
    for table, fact in zip(rng.integers(0, TABLES, count), rng.integers(0, FACTS, count), strict=True):
        answers = rng.choice(ANSWERS, SAMPLES, p=probabilities(logits[table, fact]))
        found.append(Asked(int(table), int(fact), answers, (answers == right[table, fact]).astype(float)))
    return found


def learn(logits: Table, before: Table, group: Asked, *, theirs: bool) -> None:
    """Adds one group's gradient; of peers' groups without the negative advantages."""
    advantages = group.rewards - group.rewards.mean()
    share = probabilities(before[group.table, group.fact])
    for answer, advantage in zip(group.answers, np.maximum(advantages, 0) if theirs else advantages, strict=True):
        logits[group.table, group.fact] -= STEP * advantage * share
        logits[group.table, group.fact, answer] += STEP * advantage


def main() -> None:
    """Print the table."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--seeds", type=int, default=8)
    asked.add_argument("--rounds", type=int, default=100)
    given = asked.parse_args()
    print("peers from  I/J    way            reward  over uniform (standard error)")
    for since, (local, external) in itertools.product((0, 50), ((24, 0), (20, 4), (16, 8), (12, 12))):
        plain = np.zeros(0)
        for way, weigh in WAYS.items() if external else [("uniform", WAYS["uniform"])]:
            found = np.array([run(s, local, external, since, given.rounds, weigh) for s in range(given.seeds)])
            plain = found if way == "uniform" else plain
            gains = 100 * (found / plain - 1)
            error = gains.std(ddof=1) / len(gains) ** 0.5
            says = f"{found.mean():7.2f}  {gains.mean():+.1f} % ({error:.1f})"
            print(f"{since:10d}  {local:2d}/{external:<3d} {way:13s} {says}")


if __name__ == "__main__":
    main()
