"""An embedded model with one thread and with two: rounds per minute of `swarm up`, with one node and with two.

    python -m benchmarks.threads [--quick] [--rounds 20] [--repetitions 5]

`swarm up --threads 1` and `--threads 2` take turns, on a quiet machine and beside two processes that never rest. Rounds
per minute count from when the slowest node had done its second round. `two_over_one` is their ratio repetition by
repetition: above 1, a second thread gains. `swarm up` gives an embedded model one thread whatever the cores; this says
whether it should.
"""

from __future__ import annotations

from typing import Any

from benchmarks.common import alternate, arguments_of, keep, ratios, summary
from benchmarks.processes import busy_loops
from benchmarks.swarms import run_swarm

NODES, THREADS, BUSY = (1, 2), (1, 2), {"quiet": 0, "beside_two_busy": 2}


def seconds_per_round(nodes: int, threads: int, rounds: int, busy: int) -> float:
    """Of one swarm, start-up left out."""
    with busy_loops(busy):
        return run_swarm(nodes, rounds, "--threads", str(threads)).seconds_per_round


def compare(nodes: int, rounds: int, repetitions: int, busy: int) -> dict[str, Any]:
    """One thread against two, by turns."""
    sides = {
        str(threads): (lambda threads=threads: seconds_per_round(nodes, threads, rounds, busy)) for threads in THREADS
    }
    per_minute = {side: [60 / taken for taken in found] for side, found in alternate(sides, repetitions).items()}
    return {
        "rounds_per_minute": {f"threads_{side}": summary(values) for side, values in per_minute.items()},
        "two_over_one": ratios(per_minute["2"], per_minute["1"]),
    }


def main() -> None:
    parser = arguments_of(__doc__, threads=None)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    rounds, repetitions = (5, 1) if arguments.quick else (arguments.rounds, arguments.repetitions)
    result = {
        f"nodes_{nodes}_{name}": compare(nodes, rounds, repetitions, busy)
        for name, busy in BUSY.items()
        for nodes in NODES
    }
    keep("threads", {"rounds": rounds, **result}, arguments)


if __name__ == "__main__":
    main()
