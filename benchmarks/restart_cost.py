"""What a kill -9 costs the others: the longest round after it, beside the median of those before.

    python -m benchmarks.restart_cost       # a worker, the coordinator, all; workers expected or not

A coordinator and four workers of `tiny-2-qwen2` as processes on one folder, rounds of at most a minute, I = J = G = 4.
After ROUNDS rounds somebody is killed, and started again a second later.
"""

from __future__ import annotations

import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

from swarm.cli.say import say
from tests.integration.swarms import daemons, environment, events, eventually, rows

WORKERS = ("anna", "ben", "carol", "dora")
CLOCK = "clock"
ROUNDS, AFTER = 8, 8
"""Rounds before the kill, and after it."""
VICTIMS = {"a worker": ("ben",), "the coordinator": (CLOCK,), "all": (CLOCK, *WORKERS)}
BY_DEFAULT = ("HEARTBEAT_INTERVAL", "LIVENESS_TIMEOUT", "RECONCILE_INTERVAL", "SETTLE_TIME", "MAX_NEW_TOKENS")
SIZES = {"MAX_ROUNDS": 500, "NUM_TRAIN_SAMPLES": 4, "NUM_TRANSPLANT_TREES": 4, "COORDINATOR_ROUND_INTERVAL": 60}


class Cost(NamedTuple):
    """Of one kill, in seconds."""

    median: float
    """Of the rounds before it."""
    longest: float
    """Of the rounds after it, the one in which it fell included; of a killed coordinator its absence is in it."""
    came_back: float
    """From the kill until all who were killed were at work again."""


def opened(path: Path) -> dict[int, float]:
    """Round -> when it was first opened."""
    found = [(event["round"], event["timestamp"]) for event in events(path, CLOCK, "round.opened")]
    return dict(sorted(dict(reversed(found)).items()))


def worked_since(path: Path, node: str, since: float) -> float:
    """When a node did its first work after a moment; 0 if it has not."""
    times = opened(path).values() if node == CLOCK else [row["timestamp"] for row in rows(path, node)]
    return next((at for at in times if at > since), 0.0)


def measure(path: Path, victims: tuple[str, ...], *, expected: bool) -> Cost:
    """Runs a swarm, kills some of it, and sees."""
    env = environment(path, **SIZES, **({"SWARM_EXPECTED_WORKERS": len(WORKERS)} if expected else {}))
    env = {name: value for name, value in env.items() if name.removeprefix("SWARM_") not in BY_DEFAULT}
    with daemons() as start:

        def started(node: str) -> None:
            role = "coordinator" if node == CLOCK else "worker"
            running[node] = start("swarm", env | {"NODE_ID": node, "NODE_ROLE": role}, "node")

        running = {}
        for node in (CLOCK, *WORKERS):
            started(node)
        eventually(lambda: len(opened(path)) > ROUNDS, f"{ROUNDS} rounds")
        killed = time.time()
        for node in victims:
            running[node].kill()
        time.sleep(1.0)
        for node in victims:
            started(node)
        last = max(opened(path)) + AFTER
        eventually(lambda: max(opened(path)) > last, f"{AFTER} rounds more")
        back = max(eventually(lambda node=node: worked_since(path, node, killed), f"{node}'s work") for node in victims)
    lasts = [(at, following - at) for at, following in pairwise(opened(path).values())]
    before = [seconds for at, seconds in lasts if at + seconds < killed]
    return Cost(median(before), max(seconds for at, seconds in lasts if at + seconds >= killed), back - killed)


def main() -> None:
    """Print what each kill costs."""
    say(f"{'killed':16} {'expected':9} {'median':>7} {'longest':>8} {'x median':>9} {'back after':>11}")
    for expected in (False, True):
        for who, victims in VICTIMS.items():
            with tempfile.TemporaryDirectory() as folder:
                cost = measure(Path(folder), victims, expected=expected)
            told = f"{cost.median:7.2f} {cost.longest:8.2f} {cost.longest / cost.median:9.1f} {cost.came_back:11.1f}"
            say(f"{who:16} {'4' if expected else 'unset':9} {told}")


if __name__ == "__main__":
    main()
