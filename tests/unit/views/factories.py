"""A plausible experiment folder, to be spoilt by tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.types import Origin, RoundKey
from swarm.wire.messages import (
    GroupInfo,
    MetricsRow,
    NodeStart,
    PeerFile,
    RewardFile,
    RolloutEntry,
    RolloutFile,
    StateFile,
    WinnersFile,
)
from tests.layout import Layout

START = 1_700_000_000.0
ROUND_SECONDS = 2.0


def make_experiment(
    path: Path, *, name: str = "exp", workers: tuple[str, ...] = ("alice", "bob"), rounds: int = 3
) -> Layout:
    """A finished run of some workers and the coordinator `clock`."""
    layout = Layout(path, name)
    set_clock(layout, rounds, max_rounds=rounds, finished=True)
    append_events(layout, "clock", make_event("coordinator.started", START))
    print_to(layout, "clock", "opened round 0")
    for worker in workers:
        make_peer(layout, worker, model="tiny-qwen2", status="stopped")
        append_events(layout, worker, make_event("node.started", START + 1))
        print_to(layout, worker, "hello")
        for number in range(rounds):
            make_round(layout, worker, number)
    layout.checkpoint(rounds, "alice").mkdir(parents=True)
    return layout


def set_clock(layout: Layout, round_: int, **state: Any) -> None:
    """What a coordinator that has left says of the clock: in its state and in its goodbye."""
    write(layout.state_file, make_state(layout, round=round_, **state))
    make_peer(layout, "clock", node_role="coordinator", status="stopped", round=round_)


def run_of(layout: Layout) -> Run:
    """The run to read, which need not be there."""
    return open_place(layout.path).open(layout.experiment, writer="test")


def make_round(layout: Layout, node: str, number: int) -> MetricsRow:
    """Everything that a worker leaves of a round."""
    key, row = RoundKey(number), make_row(layout, node, number)
    write(layout.rollout_file(key, node), make_rollouts(node, key))
    reward = RewardFile(round=number, stage=0, reward=row.my_reward, peer_id=node, submitted_at=row.timestamp)
    write(layout.reward_file(key, node), reward)
    winners = WinnersFile(round=number, winners=[node], peer_id=node, submitted_at=row.timestamp)
    write(layout.winners_file(number, node), winners)
    append(layout.metrics_file(node), msgspec.json.encode(row))
    append_events(layout, node, make_event("round.finished", row.timestamp, round=number, reward=row.my_reward))
    return row


def reward_of(number: int) -> float:
    return 0.1 + number / 100


def make_row(layout: Layout, node: str, number: int, **fields: Any) -> MetricsRow:
    base: dict[str, Any] = {
        "timestamp": START + ROUND_SECONDS * (number + 1),
        "round": number,
        "stage": 0,
        "node_id": node,
        "experiment": layout.experiment,
        "my_reward": reward_of(number),
        "total_agents": 2,
        "bytes_published": 900,
        "model": "tiny-qwen2",
        "cumulative_reward": sum(reward_of(n) for n in range(number + 1)),
        "seconds_round": ROUND_SECONDS,
    }
    return MetricsRow(**(base | fields))


def add_row(layout: Layout, node: str, number: int, **fields: Any) -> None:
    """A node has written one row more."""
    append(layout.metrics_file(node), msgspec.json.encode(make_row(layout, node, number, **fields)))


def make_rollouts(node: str, key: RoundKey, **fields: Any) -> RolloutFile:
    entries = [
        RolloutEntry(prompt="1 + 1?", response="<answer>2</answer>", reward=1.0),
        RolloutEntry(prompt="1 + 1?", response="3", reward=0.0),
    ]
    origin = Origin(task="basic_arithmetic", profile="tiny", seed=1, index=2, version="0.1.25")
    base: dict[str, Any] = {
        "peer_id": node,
        "round": key.round,
        "stage": key.stage,
        "timestamp": START,
        "rollouts": {"0": entries},
        "groups": {"0": GroupInfo(task="basic_arithmetic", answer="2", origin=origin)},
    }
    return RolloutFile(**(base | fields))


def make_state(layout: Layout, **fields: Any) -> StateFile:
    base: dict[str, Any] = {
        "round": 0,
        "stage": 0,
        "created_at": START,
        "updated_at": START + 100,
        "updated_by": "clock",
        "experiment_name": layout.experiment,
        "max_rounds": 3,
    }
    return StateFile(**(base | fields))


def make_peer(layout: Layout, node: str, **fields: Any) -> None:
    base: dict[str, Any] = {
        "peer_id": node,
        "registered_at": START,
        "node_role": "worker",
        "last_seen": START + 100,
        "round": 2,
        "phase": "done",
    }
    write(layout.peer_file(node), PeerFile(**(base | fields)))


def make_start(layout: Layout, node: str, **fields: Any) -> NodeStart:
    """A start as its node's record has it."""
    base: dict[str, Any] = {"timestamp": START, "node_id": node, "experiment": layout.experiment, "role": "worker"}
    return NodeStart(**(base | {"incarnation": "9f", "settings": {}} | fields))


def make_event(event: str, timestamp: float, level: str = "info", **fields: Any) -> dict[str, Any]:
    return {"timestamp": timestamp, "level": level, "event": event, **fields}


def append_events(layout: Layout, node: str, *events: dict[str, Any]) -> None:
    for event in events:
        append(layout.events_file(node), msgspec.json.encode(event | {"node_id": node, "logger": "swarm.node"}))


def print_to(layout: Layout, node: str, line: str) -> None:
    append(layout.stdout_file(node), line.encode())


def append(file: Path, line: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as out:
        out.write(line + b"\n")


def write(file: Path, message: msgspec.Struct) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.encode(message) + b"\n")
