"""Processor seconds that a round costs, beside another checkout of the code.

    python -m benchmarks.round_cost --code CHECKOUT [--pairs 30] [--signed]

A coordinator and two workers of an embedded model as processes on one folder. Both versions run by turns, and the first
of a pair alternates. Counted is what all processes together take, scoring children included, from when every worker
has done WARM rounds until every worker has done WARM + ROUNDS: no start and no end is in it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.common import arguments_of, interval, keep, ratios, summary
from benchmarks.processes import processor_seconds
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
    found: dict[str, list[float]] = {name: [] for name in sides}
    for pair in range(2 if options.quick else options.pairs):
        for name in sorted(sides, reverse=bool(pair % 2)):
            found[name].append(cost_of_a_round(sides[name], threads=options.threads, signed=options.signed))
        print(f"pair {pair}: " + ", ".join(f"{name} {taken[-1]:.4f} s" for name, taken in found.items()), flush=True)
    low, high = interval([now / before for now, before in zip(*found.values(), strict=True)], statistics.median)
    result = {
        "cpu_seconds_a_round": {name: summary(taken) for name, taken in found.items()},
        "ratio": ratios(found["now"], found["before"]) | {"low": low, "high": high},
        "signed": options.signed,
    }
    keep("round_cost_signed" if options.signed else "round_cost", result, options)
    return 0


def cost_of_a_round(code: Path, *, threads: int, signed: bool) -> float:
    """Processor seconds, of all processes of a swarm together."""
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
        with Path(folder, "said").open("wb") as said:
            process = subprocess.Popen(command, env=env, cwd=folder, stdout=said, stderr=said)
        try:
            logs = Path(folder, "experiments/cost/logs")
            begin = _taken_when(process, logs, WARM)
            return (_taken_when(process, logs, WARM + ROUNDS) - begin) / ROUNDS
        finally:
            process.terminate()
            process.wait()


def _taken_when(process: subprocess.Popen[bytes], logs: Path, rounds: int) -> float:
    """Processor seconds that the tree has taken when every worker has done so many rounds."""
    until = time.monotonic() + PATIENCE
    while min(_rounds(logs, f"worker-{number}") for number in range(2)) < rounds:
        if time.monotonic() > until or process.poll() is not None:
            raise SystemExit(f"{logs}: {rounds} rounds were not done; the swarm ended with {process.poll()}")
        time.sleep(0.02)
    return processor_seconds(process.pid, ended=True)


def _rounds(logs: Path, node: str) -> int:
    file = logs / node / "metrics.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


if __name__ == "__main__":
    sys.exit(main())
