"""Eight nodes in one process against a process for each core: rounds per minute and memory.

    python -m benchmarks.in_process [--quick] [--nodes 8]

`swarm up --in-process --nodes 8` and `swarm up --nodes 8` take turns. Rounds per minute count from when the slowest
node had done its second round, so start-up is left out; it is given apart. Memory is the proportional set size of the
whole process tree (coordinator, workers, scoring children), sampled twice a second: its peak, and its median over the
measured rounds.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

from benchmarks.common import arguments_of, keep, ratios, summary
from benchmarks.swarms import run_swarm
from swarm.provenance import cores

SIDES = {"one_process": ("--in-process",), "processes": ()}


def measure(nodes: int, rounds: int, flags: tuple[str, ...]) -> dict[str, float]:
    """One swarm's figures."""
    begun = time.time()
    run = run_swarm(nodes, rounds, *flags)
    ends = run.round_ends
    while_running = [taken for at, taken in run.memory if at >= ends[0]] or [taken for _, taken in run.memory]
    return {
        "rounds_per_minute": 60 / run.seconds_per_round,
        "peak_bytes": max(taken for _, taken in run.memory),
        "median_bytes": statistics.median(while_running),
        "cpu_seconds": run.cpu_seconds,
        "seconds_to_first_measured_round": ends[0] - begun,
    }


def main() -> None:
    parser = arguments_of(__doc__, threads=None)
    parser.add_argument("--nodes", type=int, default=8)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.nodes = min(arguments.nodes, 2)
    rounds, repetitions = (5, 1) if arguments.quick else (20, 3)
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for repetition in range(repetitions):
        for side in list(SIDES)[:: 1 if repetition % 2 == 0 else -1]:
            found[side].append(measure(arguments.nodes, rounds, SIDES[side]))
            print(f"  repetition {repetition}: {side} {found[side][-1]}", file=sys.stderr)
    columns = {
        name: {side: [run[name] for run in runs] for side, runs in found.items()} for name in found["processes"][0]
    }
    result: dict[str, Any] = {
        "nodes": arguments.nodes,
        "processes": min(arguments.nodes, cores()),
        "rounds": rounds,
        "sides": {side: {name: summary(columns[name][side]) for name in columns} for side in SIDES},
        "times_as_many_rounds": ratios(
            columns["rounds_per_minute"]["one_process"], columns["rounds_per_minute"]["processes"]
        ),
        "times_less_memory": ratios(columns["peak_bytes"]["processes"], columns["peak_bytes"]["one_process"]),
    }
    keep("in_process", result, arguments)


if __name__ == "__main__":
    main()
