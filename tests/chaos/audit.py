"""What must be true of a swarm's folder once it has finished, however often its processes were killed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from swarm.records.rows import read_rows
from swarm.types import RoundKey
from swarm.wire.codec import decode
from swarm.wire.messages import MetricsRow, NodeState, RewardFile, RolloutFile
from tests.chaos.watcher import Watcher
from tests.layout import Layout


def audit(layout: Layout, nodes: Sequence[str], watcher: Watcher) -> Iterator[str]:
    """One sentence for each thing that is wrong."""
    for node in nodes:
        history = read_rows(layout.run, node)
        if history.junk or history.torn:
            yield f"{node}'s metrics have {history.junk} junk lines, torn at the end: {history.torn}"
        yield from _rows(node, history.rows)
        yield from _files(layout, node, history.rows)
        yield from _checkpoints(node, history.rows, watcher)


def _rows(node: str, rows: Sequence[MetricsRow]) -> Iterator[str]:
    rounds = [row.round for row in rows]
    if rounds != sorted(set(rounds)):
        yield f"{node}'s rows are not one per round, in order"
    total = 0.0
    for row in rows:
        total += row.my_reward
        if not math.isclose(row.cumulative_reward, total, abs_tol=1e-9):
            yield f"{node}'s cumulative reward in round {row.round} is {row.cumulative_reward}, not {total}"
            return


def _files(layout: Layout, node: str, rows: Sequence[MetricsRow]) -> Iterator[str]:
    """The reward of every row; and every update once: a published group says how many made the policy that wrote it."""
    updates = 0
    for row in rows:
        key = RoundKey(row.round, row.stage)
        reward, rollouts = layout.reward_file(key, node), layout.rollout_file(key, node)
        if not reward.exists() or not rollouts.exists():
            yield f"{node} has a row for round {row.round}, but not both of {reward} and {rollouts}"
            continue
        submitted = decode(reward.read_bytes(), RewardFile, str(reward)).reward
        if submitted != row.my_reward:
            yield f"{node} submitted {submitted} for round {row.round}, its row says {row.my_reward}"
        made = decode(rollouts.read_bytes(), RolloutFile, str(rollouts)).policy.rounds_trained
        if made != updates:
            yield f"{node} wrote its groups of round {row.round} after {made} updates, its rows say {updates}"
        updates += row.updated


def _checkpoints(node: str, rows: Sequence[MetricsRow], watcher: Watcher) -> Iterator[str]:
    """Every checkpoint that ever lay there holds the updates of the rows before it, and the last one holds all."""
    found = {rounds: state for (name, rounds), state in watcher.checkpoints.items() if name == node}
    for rounds, state in sorted(found.items()):
        yield from _checkpoint(node, rounds, state, [row for row in rows if row.round < rounds])
    if rows and rows[-1].round + 1 not in found:
        yield f"{node} has no checkpoint after its last round, {rows[-1].round}"


def _checkpoint(node: str, rounds: int, state: NodeState, before: Sequence[MetricsRow]) -> Iterator[str]:
    updates = sum(row.updated for row in before)
    if (state.rounds_done, state.rounds_trained) != (rounds, updates):
        yield (
            f"{node}'s checkpoint of round {rounds} says {state.rounds_done} rounds and {state.rounds_trained} "
            f"updates, its rows {updates}"
        )
    if before and not math.isclose(state.cumulative_reward, before[-1].cumulative_reward, abs_tol=1e-9):
        yield f"{node}'s checkpoint of round {rounds} says a cumulative reward of {state.cumulative_reward}"
