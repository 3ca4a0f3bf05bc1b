"""What `swarm copy` asks of a bucket, and how long it takes, there and back.

    python -m benchmarks.bucket_copies [--quick] [--rounds 500 5000] [--nodes 2] [--delay 0.01] [--before CHECKOUT]

A run with the rollouts, rows, rewards and votes of all rounds is copied from a folder into a bucket on a server of
ours (disk_server.py), once more into it, and out of it, through a proxy that counts and waits --delay seconds before
each request. With --before the first of --rounds is copied by that checkout of this repository, too, in turn.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.bucket_requests import kind_of
from benchmarks.common import arguments_of, keep
from benchmarks.made_place import make_place, name
from swarm.config import without_settings
from swarm.types import RoundKey
from swarm.wire import keys
from swarm.wire.codec import encode
from swarm.wire.messages import RewardFile, WinnersFile
from tests.engines.s3_servers import BUCKET, CREDENTIALS, Request, between, on_disk

EXPERIMENT = "made"
HERE = Path(__file__).parents[1]


def fill(folder: Path, rounds: int, nodes: int) -> None:
    """Writes the run."""
    make_place(folder, rounds, nodes, EXPERIMENT, with_rollouts=rounds)
    here = folder / "experiments" / EXPERIMENT
    for node in map(name, range(nodes)):
        for line in (here / keys.metrics(node)).read_bytes().splitlines():
            row = msgspec.json.decode(line)
            at, key = row["timestamp"], RoundKey(row["round"])
            reward = RewardFile(round=key.round, stage=0, reward=row["my_reward"], peer_id=node, submitted_at=at)
            vote = WinnersFile(round=key.round, winners=[node], peer_id=node, submitted_at=at)
            for file, form in ((keys.reward(key, node), reward), (keys.winners(key.round, node), vote)):
                (here / file).parent.mkdir(parents=True, exist_ok=True)
                (here / file).write_bytes(encode(form))


def copied(checkout: Path, source: str, target: str, seen: list[Request], most: float) -> dict[str, Any]:
    """Requests, bytes and seconds of one copy; `ended` is False where it was ended after `most` seconds."""
    seen.clear()
    environ = without_settings(os.environ) | CREDENTIALS | {"PYTHONPATH": str(checkout)}
    command = [sys.executable, "-m", "swarm", "copy", source, target, "--experiment", EXPERIMENT]
    began, ended = time.perf_counter(), True
    try:
        subprocess.run(command, env=environ, cwd=checkout, check=True, capture_output=True, timeout=most)
    except subprocess.TimeoutExpired:
        ended = False
    return {
        "ended": ended,
        "seconds": round(time.perf_counter() - began, 1),
        "requests": len(seen),
        "kinds": dict(Counter(map(kind_of, seen))),
        "sent": sum(one.sent for one in seen),
        "received": sum(one.received for one in seen),
    }


def measure(checkout: Path, rounds: int, nodes: int, delay: float, most: float) -> dict[str, Any]:
    """A copy there, the same once more, and back."""
    seen: list[Request] = []

    def plan(method: str, path: str) -> str:
        time.sleep(delay)
        return "pass"

    with tempfile.TemporaryDirectory() as folder:
        here, back, disk = (Path(folder) / part for part in ("here", "back", "disk"))
        fill(here, rounds, nodes)
        with on_disk(disk) as server, between(server.port, plan, seen=seen.append) as port:
            url = f"s3://{BUCKET}/place?endpoint=http://127.0.0.1:{port}"
            ways = {"there": (str(here), url), "again": (str(here), url), "back": (url, str(back))}
            found = {way: copied(checkout, *places, seen, most) for way, places in ways.items()}
    return {"rounds": rounds, "files": 3 * rounds * nodes, **found}


def main() -> None:
    parser = arguments_of(__doc__, threads=None)
    parser.add_argument("--rounds", type=int, nargs="+", default=[500, 5000])
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--delay", type=float, default=0.01, help="seconds before each request")
    parser.add_argument("--before", type=Path, help="a checkout of an earlier commit")
    parser.add_argument("--most", type=float, default=1200.0, help="seconds after which a copy is ended")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds = [50]
    sides = {"now": HERE} | ({"before": arguments.before.resolve()} if arguments.before else {})
    asked = [
        (side, rounds)
        for rounds in arguments.rounds
        for side in sides
        if side == "now" or rounds == min(arguments.rounds)
    ]
    found = []
    for side, rounds in asked:
        result = measure(sides[side], rounds, arguments.nodes, arguments.delay, arguments.most)
        print(side, result, file=sys.stderr)
        found.append({"side": side, **result})
    keep("bucket_copies", {"nodes": arguments.nodes, "delay": arguments.delay, "copies": found}, arguments)


if __name__ == "__main__":
    main()
