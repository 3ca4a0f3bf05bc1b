"""A small study on disk, as its runs would have left it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from swarm.plugins.study.record import DeclaredComparison, RunRecord, StudyRecord
from swarm.plugins.study.report.contents import CONTENTS
from swarm.plugins.study.report.evidence import Evidence
from swarm.plugins.study.report.parts import Table
from swarm.wire.messages import MetricsRow
from tests.layout import Layout
from tests.plugins.study.study_files import record_file, study_record
from tests.unit.views.factories import append, write

START = 1_700_000_000.0
TASKS = ("arc_1d", "fraction_simplification")
SLOPE = {"8/0": 0.2, "6/2": 0.3, "4/4": 0.5, "2/6": 0.22}
"""How much reward a configuration of these names gains over a run; others gain 0.3."""


WORTH = 0.8
"""Reward of a completion with a closed answer."""


def write_study(
    path: Path,
    *,
    study: str = "small",
    configurations: Sequence[str] = ("8/0", "4/4"),
    seeds: Sequence[int] = (1, 2, 3),
    nodes: Sequence[str] = ("alice", "bob"),
    rounds: int = 12,
    missing: Sequence[str] = (),
    declared: Sequence[DeclaredComparison] = (),
    **columns: Any,
) -> StudyRecord:
    """A study with one run a seed, whose first configuration is the others' baseline.

    Experiments that are `missing` have not begun; `columns` are of every metrics row.
    """
    record = make_record(study, configurations, seeds, nodes, rounds)
    record = msgspec.structs.replace(record, declared=tuple(declared))
    write(record_file(path, study), record)
    for run in record.runs:
        if run.experiment not in missing:
            write_run(path, run, nodes, rounds, columns)
    return record


def make_record(
    study: str, configurations: Sequence[str], seeds: Sequence[int], nodes: Sequence[str], rounds: int
) -> StudyRecord:
    runs = tuple(
        RunRecord(configuration=name, seed=seed, experiment=f"{study}-{place}-s{seed}")
        for place, name in enumerate(configurations)
        for seed in seeds
    )
    more = {"title": "A small study", "settings": {"model": "tiny-qwen2"}, "versions": {"swarm": "0.1.0"}}
    sizes = {"nodes": len(nodes), "rounds": rounds, "runs": runs}
    return study_record(*configurations, study=study, seeds=tuple(seeds), created_at=START, **more, **sizes)


def make_evidence(record: StudyRecord, *, window: int = 1, **tables: pd.DataFrame) -> Evidence:
    """The evidence of these tables; `runs` are finished ones; tables that are not given are empty."""
    if "runs" in tables:
        runs = tables["runs"]
        tables["runs"] = runs.assign(state="finished", rows_missing=0, rows_beyond=0)
    return Evidence(record=record, window=window, **tables)


def table_of(name: str, evidence: Evidence) -> pd.DataFrame:
    """A table of the report, as its declaration makes it."""
    parts = (part for one in CONTENTS for part in one.parts if isinstance(part, Table) and part.name == name)
    return next(parts).frame(evidence)


def write_run(path: Path, run: RunRecord, nodes: Sequence[str], rounds: int, columns: dict[str, Any]) -> None:
    layout = Layout(path, run.experiment)
    for place, node in enumerate(nodes):
        for number in range(rounds):
            row = make_row(run, nodes, place, number, rounds, columns)
            append(layout.metrics_file(node), msgspec.json.encode(row))


def make_row(
    run: RunRecord, nodes: Sequence[str], place: int, number: int, rounds: int, columns: dict[str, Any]
) -> MetricsRow:
    luck = 0.01 * math.sin(40.0 * run.seed * SLOPE.get(run.configuration, 0.3))
    wave = luck + 0.05 * math.sin(1.7 * number + 2.3 * place + 5.1 * run.seed) + 0.02 * math.sin(3.0 * run.seed)
    reward = 0.1 + SLOPE.get(run.configuration, 0.3) * (number + 1) / rounds + wave
    given: dict[str, Any] = {
        "timestamp": START + 2.0 * number,
        "round": number,
        "stage": 0,
        "node_id": nodes[place],
        "experiment": run.experiment,
        "my_reward": reward,
        "total_agents": len(nodes),
        "model": "tiny-qwen2",
        "full_answer_rate": reward / 2,
        "answer_tag_rate": min(1.0, reward / WORTH),
        "task_rewards": {TASKS[0]: reward, TASKS[1]: reward * 0.9},
        "task_tag_rates": dict.fromkeys(TASKS, min(1.0, reward / WORTH)),
        "external_by_peer": {} if run.configuration == "8/0" else {nodes[(place + 1) % len(nodes)]: 2},
        "tokens_generated": 500,
        "bytes_published": 1500,
        "bytes_fetched": 0 if run.configuration == "8/0" else 3000,
        "seconds_round": 1.5,
    }
    return MetricsRow(**given | columns)


def cut_short(path: Path, experiment: str, rounds: int) -> None:
    """Let a run have done only so many rounds."""
    for file in (path / "experiments" / experiment / "logs").rglob("metrics.jsonl"):
        file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:rounds]))
