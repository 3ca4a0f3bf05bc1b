"""Makes a place with a long run of many nodes, without running any: what views are measured on.

    python -m benchmarks.made_place FOLDER [--rounds 2000] [--nodes 16] [--experiment made]

Starts, registrations, rows and events of all rounds, rollouts of the last ones. Node 3 publishes rewards that are
false, node 5 is slow, node 7 never finishes an answer. Figures are drawn from a seed and mean nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec

from swarm.config import Settings
from swarm.node.worker.row import RunningTotals
from swarm.store.place import open_place
from swarm.types import Origin, RoundKey
from swarm.wire import keys
from swarm.wire.codec import encode
from swarm.wire.messages import (
    ExperimentFile,
    GroupInfo,
    MetricsRow,
    NodeStart,
    PeerFile,
    PolicyInfo,
    RolloutEntry,
    RolloutFile,
    StateFile,
)

TASKS = (
    *("arc_1d", "basic_arithmetic", "bf", "binary_matrix", "decimal_arithmetic"),
    *("fraction_simplification", "base_conversion", "calendar_arithmetic", "propositional_logic"),
)
LIAR, SLOW, ENDLESS = 3, 5, 7
GROUPS, COMPLETIONS = 4, 8
ROUND_SECONDS = 40.0


def row_of(nodes: int, node: int, round_: int, rounds: int, began: float, chance: random.Random) -> MetricsRow:
    """One row, as a worker would write it."""
    share = round_ / rounds
    tagged = min(1.0, 0.1 + 0.85 * (1 - math.exp(-4 * share)) + chance.gauss(0, 0.05))
    given = min(1.0, max(0.0, 0.12 + 0.25 * share + chance.gauss(0, 0.04)))
    tagged = 0.0 if node == ENDLESS else max(0.0, tagged)
    peers = chance.sample([peer for peer in range(nodes) if peer not in (node, LIAR)], min(4, max(0, nodes - 2)))
    seconds = ROUND_SECONDS * (3.0 if node == SLOW else 1.0) * chance.uniform(0.8, 1.2)
    asked = chance.sample(TASKS, GROUPS)
    lies = {name(LIAR): 1} if node != LIAR and nodes > LIAR and chance.random() < 0.5 else {}
    return MetricsRow(
        timestamp=began + ROUND_SECONDS * (round_ + 1),
        round=round_,
        stage=0,
        node_id=name(node),
        experiment="made",
        my_reward=tagged * given,
        total_agents=nodes,
        model="tiny-2-qwen2",
        answer_tag_rate=tagged,
        finished_rate=0.0 if node == ENDLESS else 0.98,
        task_rewards=dict.fromkeys(asked, tagged * given),
        task_tag_rates=dict.fromkeys(asked, tagged),
        local_groups=GROUPS,
        zero_advantage_local=chance.choice([0.0, 0.25, 0.5]),
        external_wanted=GROUPS,
        external_groups=len(peers),
        external_by_peer={name(peer): 1 for peer in peers},
        pool_groups=GROUPS * (nodes - 1),
        pool_informative=GROUPS * (nodes - 1) // 2,
        peers_heard=nodes - 1,
        staleness=chance.choice([0.0, 0.25, 0.5]),
        trained_on=[f"{name(peer)}/{max(0, round_ - chance.randrange(2))}/0/{peer % GROUPS}" for peer in peers],
        accepted_by_peer={name(peer): 4 for peer in peers},
        false_claims=lies,
        late=node == SLOW,
        bytes_published=24_000,
        bytes_fetched=24_000 * (nodes - 1),
        tokens_generated=32 * 48,
        tokens_trained=64 * 48,
        seconds_round=seconds,
        seconds_generate=seconds * 0.4,
        seconds_train=seconds * 0.4,
        seconds_gather=seconds * 0.1,
        executor_busy=min(1.0, chance.uniform(0.75, 0.95)),
        memory_allocated=2 * 10**9,
        memory_total=24 * 10**9,
        memory_free=12 * 10**9,
    )


def name(node: int) -> str:
    """Of a worker."""
    return f"worker-{node}"


def events_of(node: int, round_: int, began: float) -> Iterator[dict[str, Any]]:
    """What a worker logs of a round."""
    at = began + ROUND_SECONDS * round_
    base = {"level": "info", "node_id": name(node), "round": round_, "stage": 0}
    yield base | {"timestamp": at, "event": "round.started", "tasks": [*TASKS[:GROUPS]]}
    yield base | {"timestamp": at + 16, "event": "rollouts.published", "groups": GROUPS, "bytes": 24_000}
    if node == SLOW:
        yield base | {"timestamp": at + 38, "event": "round.late", "level": "warning", "behind": 80.0}
    yield base | {"timestamp": at + 39, "event": "round.completed", "my_reward": 0.1, "seconds": ROUND_SECONDS}


def rollouts_of(node: int, key: RoundKey, at: float, chance: random.Random) -> RolloutFile:
    """What a worker publishes in a round."""
    slots = {str(slot): [_entry(node, slot, chance) for _ in range(COMPLETIONS)] for slot in range(GROUPS)}
    origins = {slot: Origin(TASKS[int(slot)], "tiny-2", 7, key.round % 1000, version="0.1.25") for slot in slots}
    groups = {slot: GroupInfo(task=TASKS[int(slot)], answer=str(slot), origin=origins[slot]) for slot in slots}
    policy = PolicyInfo(model="tiny-2-qwen2", rounds_trained=key.round)
    return RolloutFile(
        peer_id=name(node), round=key.round, stage=0, timestamp=at, rollouts=slots, groups=groups, policy=policy
    )


def _entry(node: int, slot: int, chance: random.Random) -> RolloutEntry:
    right = node != ENDLESS and chance.random() < 0.3
    thought = f"{slot} + 0 is the same as {slot}, and so "
    if node == ENDLESS:
        return RolloutEntry(prompt=_prompt(slot), response=thought * 20, reward=0.0, finished=False)
    answer = slot if right else slot + chance.randrange(1, 9)
    claimed = 1.0 if right or node == LIAR else 0.0
    return RolloutEntry(prompt=_prompt(slot), response=f"{thought}<answer>{answer}</answer>", reward=claimed)


def _prompt(slot: int) -> str:
    return f"What is {slot} plus 0?\nGive the number alone, as <answer>number</answer>."


def start_of(node: str, experiment: str, began: float) -> NodeStart:
    """What a worker notes when it starts."""
    asked: dict[str, Any] = {
        "local_groups": GROUPS,
        "external_groups": GROUPS,
        "generations": COMPLETIONS,
        "learning_rate": 3e-4,
    }
    return NodeStart(
        timestamp=began,
        node_id=node,
        experiment=experiment,
        role="worker",
        incarnation="made",
        settings=Settings().with_values(asked).as_recorded(),
        sources=dict.fromkeys(asked, "made"),
    )


def make_place(folder: Path, rounds: int, nodes: int, experiment: str = "made", with_rollouts: int = 20) -> None:
    """Make it; nothing may be there yet.

    Args:
        with_rollouts: of so many last rounds.
    """
    run, chance, now = open_place(folder).open(experiment, "made"), random.Random(0), time.time()
    began = now - ROUND_SECONDS * rounds
    identity: dict[str, Any] = {
        "seed": 7,
        "local_groups": GROUPS,
        "external_groups": GROUPS,
        "generations": COMPLETIONS,
    }
    about = ExperimentFile(experiment_name=experiment, created_at=began, created_by="clock", identity=identity)
    run.store.put(keys.EXPERIMENT, encode(about))
    state = StateFile(
        round=rounds,
        stage=0,
        created_at=began,
        updated_at=now,
        updated_by="clock",
        experiment_name=experiment,
        max_rounds=2 * rounds,
    )
    run.store.put(keys.STATE, encode(state))
    for node in range(nodes):
        peer = PeerFile(
            peer_id=name(node),
            registered_at=began,
            node_role="worker",
            last_seen=now,
            round=rounds,
            phase="generating",
            phase_since=now,
            heartbeat_interval=5.0,
            model="tiny-2-qwen2",
        )
        run.store.put(keys.peer(name(node)), encode(peer))
        rows, totals = [row_of(nodes, node, at, rounds, began, chance) for at in range(rounds)], RunningTotals()
        for row, total in zip(rows, accumulate(row.my_reward for row in rows), strict=True):
            row.cumulative_reward = total
            totals.add_up(row)
        start = start_of(name(node), experiment, began)
        _lines(folder, experiment, keys.starts(name(node)), [msgspec.json.encode(start)])
        _lines(folder, experiment, keys.metrics(name(node)), (msgspec.json.encode(row) for row in rows))
        events = (event for round_ in range(rounds) for event in events_of(node, round_, began))
        _lines(folder, experiment, keys.events(name(node)), (json.dumps(event).encode() for event in events))
        for round_ in range(max(0, rounds - with_rollouts), rounds):
            key = RoundKey(round_)
            published = rollouts_of(node, key, began + ROUND_SECONDS * round_, chance)
            run.store.put(keys.rollout(key, name(node)), encode(published), durable=False)


def append_round(folder: Path, round_: int, nodes: int, experiment: str = "made") -> None:
    """One more row of every node."""
    chance, began = random.Random(round_), time.time() - ROUND_SECONDS * (round_ + 1)
    for node in range(nodes):
        row = row_of(nodes, node, round_, round_ + 1, began, chance)
        _lines(folder, experiment, keys.metrics(name(node)), [msgspec.json.encode(row)])


def _lines(folder: Path, experiment: str, key: str, lines: Any) -> None:
    file = folder / "experiments" / experiment / key
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as grows:
        grows.writelines(line + b"\n" for line in lines)


def main() -> None:
    """Make one where the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--experiment", default="made")
    asked = parser.parse_args()
    make_place(asked.folder, asked.rounds, asked.nodes, asked.experiment)


if __name__ == "__main__":
    main()
