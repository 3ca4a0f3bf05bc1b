"""What does a node cost that waits? Processor time a minute of a worker and a coordinator before round 0.

    coordinator, which expects two workers ◀─ one folder ─▶ one worker of the embedded model

Nothing happens but heartbeats. Aim: 0.3 s a minute.

    python -m benchmarks.waiting --trees . ../before      # each tree in turn, so that the machine is the same for all
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.common import arguments_of, keep, own_trees, summary
from benchmarks.processes import processor_seconds, running

SETTLED = 90.0
"""Seconds after which a node is ready, and its watcher looks seldom."""


def measure(tree: Path, folder: Path, seconds: float) -> dict[str, float]:
    """Returns processor seconds a minute, by role."""
    environment = os.environ | {
        "PYTHONPATH": str(tree.resolve()),
        "SWARM_PATH": str(folder),
        "EXPERIMENT_NAME": "waiting",
        "SWARM_EXPECTED_WORKERS": "2",
        "COORDINATOR_ROUND_INTERVAL": "3600",
    }
    roles = ("coordinator", "worker")
    nodes = {role: [sys.executable, "-P", "-m", "swarm", "node", "--role", role, "--node-id", role] for role in roles}
    with ExitStack() as stack:
        pids = {
            role: stack.enter_context(
                running(node, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            ).pid
            for role, node in nodes.items()
        }
        time.sleep(SETTLED)
        before = {role: processor_seconds(pid) for role, pid in pids.items()}
        time.sleep(seconds)
        return {role: 60 * (processor_seconds(pid) - before[role]) / seconds for role, pid in pids.items()}


def main() -> None:
    """Print what waiting costs, by tree and role."""
    parser = arguments_of(__doc__, threads=None)
    parser.add_argument("--trees", type=Path, nargs="+", default=[Path()], help="checkouts to measure in turn")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement")
    parser.add_argument("--repetitions", type=int, default=3)
    arguments: argparse.Namespace = parser.parse_args()
    found: dict[str, dict[str, list[float]]] = {}
    for _ in range(1 if arguments.quick else arguments.repetitions):
        for tree in arguments.trees:
            with tempfile.TemporaryDirectory() as folder:
                for role, cost in measure(tree, Path(folder), 5 if arguments.quick else arguments.seconds).items():
                    found.setdefault(tree.resolve().name, {}).setdefault(role, []).append(cost)
    figures = {tree: {role: summary(costs) for role, costs in roles.items()} for tree, roles in found.items()}
    keep("waiting", {"processor_seconds_a_minute": figures, "own": own_trees(arguments.trees)}, arguments)


if __name__ == "__main__":
    main()
