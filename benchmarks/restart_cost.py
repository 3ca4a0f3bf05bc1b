"""What a kill -9 costs the others: the longest round after it, beside the median of those before.

    python -m benchmarks.restart_cost                    # a worker, the coordinator, all; workers expected or not
    python -m benchmarks.restart_cost --code CHECKOUT    # the same with other code

A coordinator and four workers of `tiny-2-qwen2` as processes on one folder, rounds of at most a minute, I = J = G = 4.
After ROUNDS rounds somebody is killed, and started again a second later.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

from swarm.cli.say import say
from swarm.config import without_settings

WORKERS = ("anna", "ben", "carol", "dora")
CLOCK = "clock"
ROUNDS, AFTER = 8, 8
"""Rounds before the kill, and after it."""
INTERVAL = 60.0
PATIENCE = 300.0
VICTIMS = {"a worker": ("ben",), "the coordinator": (CLOCK,), "all": (CLOCK, *WORKERS)}


class Cost(NamedTuple):
    """Of one kill, in seconds."""

    median: float
    """Of the rounds before it."""
    longest: float
    """Of the rounds after it, the one in which it fell included; of a killed coordinator its absence is in it."""
    came_back: float
    """From the kill until all who were killed were at work again."""


def main() -> int:
    options = _options()
    say(f"{'killed':16} {'expected':9} {'median':>7} {'longest':>8} {'x median':>9} {'back after':>11}")
    for expected in (False, True):
        for who, victims in VICTIMS.items():
            cost = measure(victims, expected=expected, code=options.code)
            times = f"{cost.longest / cost.median:9.1f}"
            told = f"{cost.median:7.2f} {cost.longest:8.2f} {times} {cost.came_back:11.1f}"
            say(f"{who:16} {'4' if expected else 'unset':9} {told}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.restart_cost", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--code", type=Path, default=Path(__file__).parents[1], help="a checkout")
    return parser.parse_args()


def measure(victims: tuple[str, ...], *, expected: bool, code: Path) -> Cost:
    """Run a swarm, kill some of it, and see."""
    with tempfile.TemporaryDirectory() as folder, _swarm(Path(folder), expected=expected, code=code) as swarm:
        swarm.start(CLOCK, *WORKERS)
        swarm.until(lambda: len(swarm.opened()) > ROUNDS)
        killed = time.time()
        swarm.kill(*victims)
        time.sleep(1.0)
        swarm.start(*victims)
        last = int(swarm.opened()[-1][0])
        swarm.until(lambda: swarm.opened()[-1][0] > last + AFTER and all(swarm.back(victims, killed)))
        back = max(swarm.back(victims, killed)) - killed
        opened = sorted(dict(reversed(swarm.opened())).items())
    lasts = [(at, following - at) for (_, at), (_, following) in pairwise(opened)]
    before = [seconds for at, seconds in lasts if at + seconds < killed]
    return Cost(median(before), max(seconds for at, seconds in lasts if at + seconds >= killed), back)


class Swarm:
    """Five processes on one folder."""

    def __init__(self, folder: Path, *, expected: bool, code: Path) -> None:
        self._folder = folder
        self._env = (
            without_settings(os.environ)
            | {
                "PYTHONPATH": str(code),
                "GDRIVE_PATH": str(folder),
                "EXPERIMENT_NAME": "cost",
                "MODEL_NAME": "tiny-2-qwen2",
                "SWARM_PROFILE": "tiny-2",
                "MAX_ROUNDS": "500",
                "NUM_TRAIN_SAMPLES": "4",
                "NUM_TRANSPLANT_TREES": "4",
                "NUM_GENERATIONS": "4",
                "COORDINATOR_ROUND_INTERVAL": str(INTERVAL),
                "SWARM_THREADS": "1",
            }
            | ({"SWARM_EXPECTED_WORKERS": str(len(WORKERS))} if expected else {})
        )
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *names: str) -> None:
        for name in names:
            env = self._env | {"NODE_ID": name, "NODE_ROLE": "coordinator" if name == CLOCK else "worker"}
            with (self._folder / f"{name}.out").open("ab") as said:
                command = [sys.executable, "-m", "swarm", "node"]
                self._running[name] = subprocess.Popen(command, env=env, cwd=self._folder, stdout=said, stderr=said)

    def kill(self, *names: str) -> None:
        for name in names:
            self._running[name].send_signal(signal.SIGKILL)
        for name in names:
            self._running[name].wait()

    def until(self, condition: object) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():  # type: ignore[operator]
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {PATIENCE:g} s in vain, rounds: {self.opened()[-3:]}")
            time.sleep(0.05)

    def _lines(self, node: str, file: str) -> list[dict[str, object]]:
        path = self._folder / "experiments/cost/logs" / node / file
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def opened(self) -> list[tuple[float, float]]:
        """Rounds, and when each was opened."""
        lines = self._lines(CLOCK, "training_events.jsonl")
        return [(line["round"], line["timestamp"]) for line in lines if line["event"] == "round.opened"]  # type: ignore[misc]

    def back(self, nodes: tuple[str, ...], since: float) -> list[float]:
        """When each of some nodes did its first work after a moment; 0 of one that has not."""
        of_workers = [self._lines(node, "metrics.jsonl") for node in nodes if node != CLOCK]
        times = [[float(str(row["timestamp"])) for row in rows] for rows in of_workers]
        if CLOCK in nodes:
            times.append([at for _, at in self.opened()])
        return [next((at for at in found if at > since), 0.0) for found in times]

    def end(self) -> None:
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()


@contextmanager
def _swarm(folder: Path, *, expected: bool, code: Path) -> Iterator[Swarm]:
    swarm = Swarm(folder, expected=expected, code=code)
    try:
        yield swarm
    finally:
        swarm.end()


if __name__ == "__main__":
    sys.exit(main())
