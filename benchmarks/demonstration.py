"""What does the demonstration take from the prompt to the end? `swarm up` as it comes: four nodes of embedded models.

    for each repetition: for each tree: swarm up ─▶ seconds, processor seconds, peak memory (PSS of all its processes)

Cumulative rewards are told per node: trees with the same models, tasks and seeds agree to the last digit.

    python -m benchmarks.demonstration --trees . ../before      # in turn, so that the machine is the same for all
    python -m benchmarks.demonstration --busy 2                 # beside two busy loops
    python -m benchmarks.demonstration --up "--profile tiny-2 --sampler whole-pool --rounds 30"    # as earlier ones did
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.common import arguments_of, card_name, keep, own_trees, ratios, summary
from benchmarks.processes import busy_loops, proportional_memory, running, tree
from swarm import provenance

SAMPLED_EVERY = 1.0
"""Seconds between two looks at memory."""


def measure(checkout: Path, folder: Path, flags: list[str]) -> dict[str, Any]:
    """Returns what one demonstration takes, and what each node earned."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SWARM_")}
    environment["PYTHONPATH"] = str(checkout.resolve())
    up = [sys.executable, "-P", "-m", "swarm", "up", "--path", str(folder), "--experiment", "demo", *flags]
    before, began, most = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic(), 0
    with running(up, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            most = max(most, proportional_memory(tree(process.pid)))
            time.sleep(SAMPLED_EVERY)
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise SystemExit(f"{' '.join(up)} ended with {process.returncode} in {checkout}")
    logs = sorted((folder / "experiments" / "demo" / "logs").glob("*/metrics.jsonl"))
    rows = {log.parent.name: [msgspec.json.decode(line) for line in log.read_bytes().splitlines()] for log in logs}
    rounds = max(of_node[-1]["timestamp"] for of_node in rows.values()) - min(
        of_node[0]["timestamp"] - of_node[0]["seconds_round"] for of_node in rows.values()
    )
    lags = [lag for of_node in rows.values() for row in of_node for lag in row["publish_to_pool"]]
    return {
        "seconds": seconds,
        "processor_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "peak_memory_mb": most / 2**20,
        "seconds_of_rounds": rounds,
        "seconds_of_start": seconds - rounds,
        "publish_to_pool_ms": 1000 * statistics.median(lags) if lags else 0.0,
        "cumulative_rewards": {node: of_node[-1]["cumulative_reward"] for node, of_node in rows.items()},
    }


def main() -> None:
    """Print what the demonstration takes, by tree."""
    parser = arguments_of(__doc__, threads=None)
    parser.add_argument("--trees", type=Path, nargs="+", default=[Path()], help="checkouts to measure in turn")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--busy", type=int, default=0, help="busy loops beside it")
    parser.add_argument("--up", default="", help="flags of `swarm up`")
    parser.add_argument("--device", default="cpu", help="where the nodes compute")
    arguments: argparse.Namespace = parser.parse_args()
    flags = ["--rounds", "2"] if arguments.quick else shlex.split(arguments.up)
    flags += ["--device", arguments.device]
    found: dict[str, list[dict[str, Any]]] = {}
    with busy_loops(arguments.busy):
        for _ in range(1 if arguments.quick else arguments.repetitions):
            for checkout in arguments.trees:
                with tempfile.TemporaryDirectory() as folder:
                    one = measure(checkout, Path(folder), flags)
                found.setdefault(checkout.resolve().name, []).append(one)
                print(checkout, one, flush=True)
    told = (
        *("seconds", "processor_seconds", "seconds_of_rounds", "seconds_of_start", "peak_memory_mb"),
        "publish_to_pool_ms",
    )
    figures: dict[str, Any] = {
        tree: {name: summary(run[name] for run in runs) for name in told}
        | {"cumulative_rewards": [run["cumulative_rewards"] for run in runs]}
        for tree, runs in found.items()
    }
    first, *others = found
    for other in others:
        figures[other]["over_the_first"] = {
            name: ratios([run[name] for run in found[other]], [run[name] for run in found[first]]) for name in told
        }
    name = f"demonstration_busy_{arguments.busy}" if arguments.busy else "demonstration"
    gpus = provenance.machine().get("gpus", []) if arguments.device.startswith("cuda") else []
    found_of = {"trees": figures, "own": own_trees(arguments.trees)}
    keep(name, found_of, arguments, device=card_name(gpus[0]) if gpus else "cpu", **({"gpu": gpus[0]} if gpus else {}))


if __name__ == "__main__":
    main()
