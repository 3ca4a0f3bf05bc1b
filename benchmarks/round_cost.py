"""What a node costs, beside another checkout of the code: a round, its start, its memory, and how soon peers' groups
are there.

    python -m benchmarks.round_cost --code CHECKOUT [--pairs 30] [--signed]

A coordinator and two workers of an embedded model as processes on one folder. Both versions run by turns, and the first
of a pair alternates.

    cpu_s_a_round      processor seconds of all processes together, scoring children included, from when every worker
                       has done WARM rounds until every worker has done WARM + ROUNDS: no start and no end is in it
    ready_s            seconds from the command until the last worker says that it is ready
    memory_mb          the most that each of the processes has held by then, without pages of files, summed up
    publish_to_pool_s  median of the seconds from a group's publication until a peer had it
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.common import arguments_of, interval, keep, ratios, summary
from benchmarks.processes import anonymous_peak, processor_seconds, tree
from swarm.config import without_settings

WARM, ROUNDS = 4, 24
PATIENCE = 300.0


def main() -> int:
    parser = arguments_of(__doc__)
    parser.add_argument("--code", type=Path, required=True, help="the checkout to compare with")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--signed", action="store_true", help="with SWARM_SIGNING=require")
    options = parser.parse_args()
    sides = {"now": Path(__file__).parents[1], "before": options.code.absolute()}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for pair in range(2 if options.quick else options.pairs):
        for name in sorted(sides, reverse=bool(pair % 2)):
            found[name].append(costs(sides[name], threads=options.threads, signed=options.signed))
            print(f"pair {pair}, {name}: {found[name][-1]}", flush=True)
    result = {figure: _beside(*([run[figure] for run in found[name]] for name in sides)) for figure in found["now"][0]}
    keep("round_cost_signed" if options.signed else "round_cost", result | {"signed": options.signed}, options)
    return 0


def _beside(now: list[float], before: list[float]) -> dict[str, Any]:
    low, high = interval([mine / theirs for mine, theirs in zip(now, before, strict=True)], statistics.median)
    ratio = ratios(now, before) | {"low": low, "high": high}
    return {"now": summary(now), "before": summary(before), "ratio": ratio}


def costs(code: Path, *, threads: int, signed: bool) -> dict[str, float]:
    """The figures of one swarm."""
    with tempfile.TemporaryDirectory() as folder:
        env = without_settings(os.environ) | {
            "PYTHONPATH": str(code),
            "GDRIVE_PATH": folder,
            "EXPERIMENT_NAME": "cost",
            "SWARM_THREADS": str(threads),
            "SWARM_KEY_FOLDER": f"{folder}/keys",
        }
        swarm = [sys.executable, "-P", "-m", "swarm"]
        if signed:
            env["SWARM_SIGNING"] = "require"
            subprocess.run([*swarm, "keys", "new"], env=env, cwd=folder, check=True, capture_output=True)
        command = [*swarm, "up", "--nodes", "2", "--rounds", str(WARM + ROUNDS + 4)]
        began = time.time()
        with Path(folder, "said").open("wb") as said:
            process = subprocess.Popen(command, env=env, cwd=folder, stdout=said, stderr=said)
        try:
            logs = Path(folder, "experiments/cost/logs")
            begin = _taken_when(process, logs, WARM)
            taken = _taken_when(process, logs, WARM + ROUNDS) - begin
            return {
                "cpu_s_a_round": taken / ROUNDS,
                "ready_s": max(map(_ready_at, _workers(logs))) - began,
                "memory_mb": sum(map(anonymous_peak, tree(process.pid))) / 1e6,
                "publish_to_pool_s": statistics.median(chain.from_iterable(map(_delays, _workers(logs)))),
            }
        finally:
            process.terminate()
            process.wait()


def _workers(logs: Path) -> list[Path]:
    return [logs / f"worker-{number}" for number in range(2)]


def _ready_at(node: Path) -> float:
    """Unix seconds."""
    events = map(json.loads, (node / "training_events.jsonl").read_text().splitlines())
    return next(float(event["timestamp"]) for event in events if event["event"] == "node.ready")


def _delays(node: Path) -> list[float]:
    rows = map(json.loads, (node / "metrics.jsonl").read_text().splitlines()[WARM:])
    return [delay for row in rows for delay in row["publish_to_pool"]]


def _taken_when(process: subprocess.Popen[bytes], logs: Path, rounds: int) -> float:
    """Processor seconds that the tree has taken when every worker has done so many rounds."""
    until = time.monotonic() + PATIENCE
    while min(map(_rounds, _workers(logs))) < rounds:
        if time.monotonic() > until or process.poll() is not None:
            raise SystemExit(f"{logs}: {rounds} rounds were not done; the swarm ended with {process.poll()}")
        time.sleep(0.02)
    return processor_seconds(process.pid, ended=True)


def _rounds(node: Path) -> int:
    file = node / "metrics.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


if __name__ == "__main__":
    sys.exit(main())
