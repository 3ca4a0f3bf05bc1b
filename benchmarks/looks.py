"""What a look at a long run in a folder costs: processor seconds and memory of the commands that only look.

    python -m benchmarks.looks [--quick] [--rounds 2000] [--nodes 16] [--repeats 7] [--before CHECKOUT]

The place is made (benchmarks.made_place). With --before, another checkout reads the same place, in turns with this one.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common import arguments_of, keep
from benchmarks.made_place import make_place
from swarm.config import without_settings

LOOKS = {
    "version": ["--version"],
    "status of three rounds": ["status", "--experiment", "short"],
    "status": ["status", "--experiment", "long"],
    "logs -n 50": ["logs", "-n", "50", "--experiment", "long"],
    "summary": ["summary", "--experiment", "long"],
}
HERE = Path(__file__).parents[1]


class Cost(NamedTuple):
    """Of one run of a command."""

    seconds: float
    """Of processor time."""
    megabytes: float
    """At most resident; never fewer than this benchmark's own, which the kernel counts."""


def cost(checkout: Path, words: list[str], environ: dict[str, str]) -> Cost:
    """Runs a command."""
    run = [sys.executable, "-P", "-m", "swarm", *words]
    process = subprocess.Popen(run, env=environ | {"PYTHONPATH": str(checkout)}, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} in {checkout}: exit code {process.returncode}")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def measure(sides: dict[str, Path], rounds: int, nodes: int, repeats: int) -> dict[str, Any]:
    """Median, least and most of each command and side; sides take turns."""
    environ = without_settings(os.environ)
    environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each side is to be compiled once
    with tempfile.TemporaryDirectory() as folder:
        make_place(Path(folder), 3, nodes, "short")
        make_place(Path(folder), rounds, nodes, "long")
        found: dict[str, Any] = {}
        for look, words in LOOKS.items():
            where = [] if look == "version" else ["--path", folder]
            costs: dict[str, list[Cost]] = {side: [] for side in sides}
            for _ in range(repeats + 1):
                for side, checkout in sides.items():
                    costs[side].append(cost(checkout, [*words, *where], environ))
            found[look] = {side: _summed(of_side[1:]) for side, of_side in costs.items()}  # the first writes bytecode
    return found


def _summed(costs: list[Cost]) -> dict[str, float]:
    seconds = [cost.seconds for cost in costs]
    return {
        "median": round(statistics.median(seconds), 3),
        "min": round(min(seconds), 3),
        "max": round(max(seconds), 3),
        "megabytes": round(max(cost.megabytes for cost in costs)),
    }


def main() -> None:
    parser = arguments_of(__doc__, threads=None)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--before", type=Path, help="a checkout that reads the same place")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.repeats = 100, 1
    sides = ({"before": arguments.before.absolute()} if arguments.before else {}) | {"now": HERE}
    looks = measure(sides, arguments.rounds, arguments.nodes, arguments.repeats)
    keep("looks", {"rounds": arguments.rounds, "nodes": arguments.nodes, "looks": looks}, arguments)


if __name__ == "__main__":
    main()
