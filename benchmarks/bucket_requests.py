"""What a swarm over a bucket asks of it: requests per node and round, by kind and prefix, against the budget.

    python -m benchmarks.bucket_requests [--quick] [--workers 2] [--seconds 60] [--rounds 6] [--local 4] [--external 4]

A coordinator and workers over moto's S3 server (`make .venv-servers/.installed`), behind a proxy that counts and
knows by their access keys who asks. The workers are real but for their policy, which sleeps: rounds of about
--seconds. Counted are whole rounds, from when the second one opens to when the last one does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

from benchmarks.common import arguments_of, keep
from benchmarks.processes import running
from swarm.config import without_settings
from tests.chaos.light_worker import FIXED_STEP
from tests.engines.s3_servers import BUCKET, CREDENTIALS, Request, between, moto

EXPERIMENT = "benchmark"
CLOCK, NAMES = "clock", ("anna", "ben", "cleo", "dora", "emil", "fred", "gina", "hugo")
STEPS = 2
"""Of a round, that the light worker sleeps in."""
NODES = 8
"""Of the swarm whose day is priced."""
CLASSES = {"put": "writes", "list": "lists", "get": "reads", "head": "reads"}


class Asked(NamedTuple):
    """A request, as far as it is counted."""

    at: float
    who: str
    kind: str
    place: str
    """First part of the key."""
    bytes: int


class RequestPrice(NamedTuple):
    """US dollars per 1,000 requests, without storage and traffic."""

    writes: float
    lists: float
    reads: float


DAY = 86_400.0
PRICES = {
    "s3": RequestPrice(0.005, 0.005, 0.0004),
    "gs": RequestPrice(0.005, 0.005, 0.0004),
    "az": RequestPrice(0.0065, 0.0065, 0.0005),
}
"""Scheme of a bucket's URL -> list prices of 2025: Amazon S3 Standard in us-east-1, Google Cloud Storage Standard in
one region, Azure Blob Storage hot with local redundancy. Other servers that speak S3 charge otherwise, or nothing."""


def kind_of(request: Request) -> str:
    """The kind by which providers charge."""
    if request.method == "GET" and "list-type=" in request.path:
        return "list"
    return "delete" if request.method == "POST" else request.method.lower()


def place_of(request: Request) -> str:
    path = request.path.replace("%2F", "/")
    return path.partition(f"{EXPERIMENT}/")[2].partition("&")[0].partition("?")[0].split("/")[0]


class Tally:
    """What passed the proxy."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.opened: list[float] = []
        """When the state file was written."""
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> None:
        now, kind, place = time.monotonic(), kind_of(request), place_of(request)
        with self._lock:
            self.asked.append(Asked(now, request.who, kind, place, request.sent + request.received))
            if (kind, place) == ("put", "state"):
                self.opened.append(now)

    def whole_rounds(self) -> tuple[int, float, list[Asked]]:
        """How many, seconds, and what was asked in them."""
        first, last = self.opened[1], self.opened[-2]  # the last write says that all is over
        return len(self.opened) - 3, last - first, [asked for asked in self.asked if first <= asked.at < last]


def environment(port: int, node: str, arguments: Any) -> dict[str, str]:
    settings: dict[str, object] = {
        **CREDENTIALS,
        "AWS_ACCESS_KEY_ID": node,
        "NODE_ID": node,
        "SWARM_PATH": f"s3://{BUCKET}/place?endpoint=http://127.0.0.1:{port}",
        "EXPERIMENT_NAME": EXPERIMENT,
        "MAX_ROUNDS": arguments.rounds,
        "NUM_TRAIN_SAMPLES": arguments.local,
        "NUM_TRANSPLANT_TREES": arguments.external,
        "COORDINATOR_ROUND_INTERVAL": 3 * arguments.seconds + 60,
        "SWARM_EXPECTED_WORKERS": arguments.workers,
        FIXED_STEP: arguments.seconds / STEPS,
    }
    return without_settings(os.environ) | {name: str(value) for name, value in settings.items()}


def run(arguments: Any) -> Tally:
    """The swarm, to its end. Raises CalledProcessError: a node failed."""
    counter = Tally()
    workers = NAMES[: arguments.workers]
    modules = {CLOCK: "services.coordinator", **dict.fromkeys(workers, "tests.chaos.light_worker")}
    with moto() as server, between(server, seen=counter) as port, ExitStack() as stack:
        nodes = [
            stack.enter_context(
                running([sys.executable, "-m", module], env=environment(port, node, arguments), stdout=sys.stderr)
            )
            for node, module in modules.items()
        ]
        for node in nodes:
            if code := node.wait():
                raise subprocess.CalledProcessError(code, node.args)
    return counter


def figures(counter: Tally, workers: int, external: int) -> dict[str, Any]:
    """Per node and round, and per minute."""
    rounds, seconds, asked = counter.whole_rounds()
    found: dict[str, Any] = {"rounds": rounds, "seconds_per_round": round(seconds / rounds, 2), "nodes": {}}
    for node in (CLOCK, *NAMES[:workers]):
        of_node = [one for one in asked if one.who == node]
        kinds = Counter(one.kind for one in of_node)
        found["nodes"][node] = {
            "requests_per_round": round(len(of_node) / rounds, 2),
            "writes_per_round": round(kinds["put"] / rounds, 2),
            "requests_per_minute": round(len(of_node) / seconds * 60, 1),
            "bytes_per_round": round(sum(one.bytes for one in of_node) / rounds),
            "by_kind_and_prefix": per_round(Counter(f"{one.kind} {one.place}" for one in of_node), rounds),
        }
    found["budget_per_round"] = {"requests": 8 + 2 * external, "writes": 4}
    found["dollars_of_a_day_of_8_workers"] = {
        scheme: round(day(asked, seconds, price, workers), 3) for scheme, price in PRICES.items()
    }
    found["list_prices_of_2025_per_1000_requests"] = {scheme: price._asdict() for scheme, price in PRICES.items()}
    return found


def per_round(counted: Mapping[str, int], rounds: int) -> dict[str, float]:
    return {what: round(number / rounds, 2) for what, number in sorted(counted.items(), key=lambda item: -item[1])}


def day(asked: list[Asked], seconds: float, price: RequestPrice, workers: int) -> float:
    """Of 8 workers that each ask as much as these, and of their coordinator."""
    share = dict.fromkeys(NAMES[:workers], NODES / workers) | {CLOCK: 1.0}
    charged = ((share.get(one.who, 0.0), CLASSES.get(one.kind)) for one in asked)
    dollars: dict[str, float] = price._asdict()
    return sum(times * dollars[kind] / 1000 for times, kind in charged if kind) * DAY / seconds


def main() -> None:
    parser = arguments_of(__doc__, threads=None)
    parser.add_argument("--seconds", type=float, default=60.0, help="that a worker computes in a round")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--workers", type=int, default=2, choices=range(1, NODES + 1))
    parser.add_argument("--local", type=int, default=4)
    parser.add_argument("--external", type=int, default=4)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.seconds, arguments.rounds = min(arguments.seconds, 6.0), min(arguments.rounds, 5)
    asked = {name: getattr(arguments, name) for name in ("workers", "seconds", "local", "external")}
    keep("bucket_requests", asked | figures(run(arguments), arguments.workers, arguments.external), arguments)


if __name__ == "__main__":
    main()
