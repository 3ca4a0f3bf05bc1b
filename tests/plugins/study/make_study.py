"""Makes the small study in tests/fixtures/study: `python -m tests.plugins.study.make_study` writes it anew.

Three configurations x three seeds, three nodes, six rounds. A node's reward in round r is k / 64 with

    k = LEVEL[configuration] + GAIN[configuration] * r + LUCK[configuration][seed] + (0, 1 or 2 for the node)

so that every total can be checked by hand. The node tags 2 k / 64 of its completions, and these earn 1/2. Each run's
trouble below is one that real runs have met:

    4-0, seed 2     a node was killed while it wrote: junk in the middle of its file, a torn last line
    2-2, seed 1     a node crashed and did round 3 again: two rows, the last counts
    2-2, seed 2     a node joined late, in round 2
    2-2, seed 3     a node has a folder for logs and no row
    4-0             rows without the rewards given tagged: an older version did not write them
    adaptive        rows with the adaptive columns
    2-2, seed 1     the one run with rollouts, rewards and events
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from swarm.plugins.study.record import ConfigurationRecord, RunRecord, StudyRecord
from swarm.types import Origin, RoundKey
from swarm.wire.messages import (
    ExperimentFile,
    GroupInfo,
    MetricsRow,
    PolicyInfo,
    RewardFile,
    RolloutEntry,
    RolloutFile,
    StateFile,
)
from tests.layout import Layout
from tests.plugins.study.study_files import record_file
from tests.unit.views.factories import append, write

STUDY = "small"
START = 1_700_000_000.0
"""Unix seconds of round 0; a round takes two."""
ROUNDS = 6
SEEDS = (1, 2, 3)
NODES = ("worker-0", "worker-1", "worker-2")
LEVEL = {"4/0": 4, "2/2": 8, "adaptive": 6}
GAIN = {"4/0": 1, "2/2": 2, "adaptive": 3}
LUCK = {"4/0": (0, 1, 3), "2/2": (0, 2, 1), "adaptive": (1, 0, 4)}
LOCAL = {"4/0": 4, "2/2": 2, "adaptive": 2}
TASKS = ("basic_arithmetic", "calendar_arithmetic")
FULL = ("2/2", 1)
"""Configuration and seed of the run that has more than metrics."""
RECORD_FIELDS = {"timestamp", "round", "stage", "node_id", "experiment", "my_reward", "total_agents"}


def main(path: Path) -> None:
    """Write the study into a shared folder that does not have it yet."""
    record = _record()
    write(record_file(path, STUDY), record)
    for run in record.runs:
        _run(Layout(path, run.experiment), run)
    _spoil(path)


def _record() -> StudyRecord:
    configurations = (
        ConfigurationRecord(name="4/0", settings={"local_groups": 4, "external_groups": 0}),
        ConfigurationRecord(name="2/2", settings={"local_groups": 2, "external_groups": 2}, baseline="4/0"),
        ConfigurationRecord(
            name="adaptive", settings={"local_groups": 2, "external_groups": 2, "adaptive": True}, baseline="4/0"
        ),
    )
    return StudyRecord(
        study=STUDY,
        title="A small study, made by a script",
        created_at=START,
        nodes=len(NODES),
        rounds=ROUNDS,
        seeds=SEEDS,
        configurations=configurations,
        settings={"generations": 4},
        judged=True,
        runs=tuple(
            RunRecord(configuration=c.name, seed=seed, experiment=experiment(c.name, seed))
            for c in configurations
            for seed in SEEDS
        ),
    )


def experiment(configuration: str, seed: int) -> str:
    return f"{STUDY}_{configuration.replace('/', '-')}_s{seed}"


def reward(configuration: str, seed: int, node: int, number: int) -> float:
    """The formula above."""
    luck = LUCK[configuration][SEEDS.index(seed)]
    return (LEVEL[configuration] + GAIN[configuration] * number + luck + node) / 64


def _run(layout: Layout, run: RunRecord) -> None:
    identity = {"seed": run.seed, "local_groups": LOCAL[run.configuration]}
    made = ExperimentFile(
        experiment_name=layout.experiment, created_at=START, created_by="coordinator", identity=identity
    )
    write(layout.experiment_file, made)
    write(layout.state_file, _state(layout))
    for node, name in enumerate(NODES):
        layout.metrics_file(name).parent.mkdir(parents=True)
        layout.stdout_file(name).write_text("started\n")
        for number in _rounds(run, node):
            _round(layout, run, node, number)
    _judge(layout, run)


def _rounds(run: RunRecord, node: int) -> range:
    """Those that the node takes part in."""
    first = {("2/2", 2, 2): 2, ("2/2", 3, 2): ROUNDS}.get((run.configuration, run.seed, node), 0)
    return range(first, ROUNDS)


def _state(layout: Layout) -> StateFile:
    return StateFile(
        round=ROUNDS,
        stage=0,
        created_at=START,
        updated_at=START + 2 * ROUNDS,
        updated_by="coordinator",
        experiment_name=layout.experiment,
        max_rounds=ROUNDS,
        finished=True,
    )


def _round(layout: Layout, run: RunRecord, node: int, number: int) -> None:
    row = _row(layout, run, node, number)
    if (run.configuration, run.seed, node, number) == ("2/2", 1, 0, 3):  # the round that a crash made it repeat
        append(layout.metrics_file(row.node_id), _line(msgspec.structs.replace(row, my_reward=0.0)))
    append(layout.metrics_file(row.node_id), _line(row))
    if (run.configuration, run.seed) == FULL:
        _publish(layout, row)


def _row(layout: Layout, run: RunRecord, node: int, number: int) -> MetricsRow:
    mine = reward(run.configuration, run.seed, node, number)
    local, peers = LOCAL[run.configuration], [name for name in NODES if name != NODES[node]]
    task = TASKS[number % 2]
    tagged: dict[str, Any] = {"reward_given_tagged": 0.5}
    tagged |= {"task_tag_rates": {task: 2 * mine}}
    fields: dict[str, Any] = {"adaptive_I": local, "adaptive_J": 4 - local, "adaptive_J_continuous": 4.0 - local}
    fields |= {"adaptive_baseline": 0.125, "adaptive_round_reward": mine}
    return MetricsRow(
        timestamp=START + 2 * (number + 1) + node / 8,
        round=number,
        stage=0,
        node_id=NODES[node],
        experiment=layout.experiment,
        my_reward=mine,
        total_agents=len(NODES),
        model="tiny-qwen2",
        cumulative_reward=sum(reward(run.configuration, run.seed, node, r) for r in _rounds(run, node) if r <= number),
        answer_tag_rate=2 * mine,
        task_rewards={task: mine},
        local_groups=local,
        zero_advantage_local=0.25,
        external_wanted=4 - local,
        external_groups=4 - local,
        external_by_peer=dict.fromkeys(peers, 1) if local == 2 else {},
        external_by_peer_task={peer: {task: 1} for peer in peers} if local == 2 else {},
        pool_groups=2 * local,
        pool_informative=local,
        bytes_published=1000 * local,
        bytes_fetched=2000 * local,
        tokens_generated=100 * local,
        tokens_trained=400,
        seconds_round=2.0,
        publish_to_pool=[0.25, 0.5],
        **({} if run.configuration == "4/0" else tagged),
        **(fields if run.configuration == "adaptive" else {}),
    )


def _line(row: MetricsRow) -> bytes:
    """Only what the row says: an older node, or another program, does not know every column."""
    said = {
        name: value
        for name, value in msgspec.to_builtins(row).items()
        if name in RECORD_FIELDS or value != msgspec.structs.asdict(_EMPTY).get(name)
    }
    return msgspec.json.encode(said)


_EMPTY = MetricsRow(timestamp=0, round=0, stage=0, node_id="", experiment="", my_reward=0, total_agents=0)


def _publish(layout: Layout, row: MetricsRow) -> None:
    key = RoundKey(row.round)
    origin = Origin(task=TASKS[row.round % 2], profile="tiny", seed=1, index=row.round, version="0.1.25")
    entries = [
        RolloutEntry(prompt="1 + 1?", response="<answer>2</answer>", reward=row.my_reward),
        RolloutEntry(prompt="1 + 1?", response='two,\r\n"2" - I\'d say', reward=0.0, finished=False),
    ]
    file = RolloutFile(
        peer_id=row.node_id,
        round=key.round,
        stage=key.stage,
        timestamp=row.timestamp - 1,
        rollouts={"0": entries, "1": entries},
        groups={slot: GroupInfo(task=origin.task, answer="2", origin=origin) for slot in ("0", "1")},
        policy=PolicyInfo(model=row.model, rounds_trained=row.round),
    )
    write(layout.rollout_file(key, row.node_id), file)
    sent = RewardFile(
        round=key.round, stage=key.stage, reward=row.my_reward, peer_id=row.node_id, submitted_at=row.timestamp
    )
    write(layout.reward_file(key, row.node_id), sent)
    event = {"timestamp": row.timestamp, "level": "info", "event": "round.completed", "node_id": row.node_id}
    append(
        layout.events_file(row.node_id), msgspec.json.encode(event | {"round": row.round, "my_reward": row.my_reward})
    )


def _judge(layout: Layout, run: RunRecord) -> None:
    for node, name in enumerate(NODES):
        for number in _rounds(run, node):
            right = (number + node) % 4 < LOCAL[run.configuration] // 2
            row = {
                "timestamp": START + 2 * (number + 1),
                "round": number,
                "node_id": name,
                "task": TASKS[number % 2],
                "profile": "tiny",
                "question_id": f"{TASKS[number % 2]}-{number}",
                "reward": 1.0 if right else 0.0,
                "full_answer": right,
                "answered": True,
                "experiment": layout.experiment,
            }
            append(layout.judge_file, msgspec.json.encode(row))


def _spoil(path: Path) -> None:
    """A node that was killed while it wrote."""
    file = Layout(path, experiment("4/0", 2)).metrics_file(NODES[1])
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:3], b"no row at all\n", *lines[3:], lines[-1][:40]]))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "fixtures" / "study")
