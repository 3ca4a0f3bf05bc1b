"""What a look at a long run in a bucket asks of it, and what a worker asks that comes back.

    python -m benchmarks.bucket_looks [--quick] [--rounds 20 500 5000] [--nodes 2] [--delay 0.01]

Rows of workers are appended one by one, as nodes append them, to moto's S3 server (`make .venv-servers/.installed`).
Then each command runs by itself behind a proxy that counts, and that waits --delay seconds before each request.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.common import arguments_of, keep
from benchmarks.made_place import make_place, name
from swarm.config import without_settings
from swarm.store.base import Store
from swarm.store.bucket import growing
from swarm.store.place import open_place
from swarm.wire import keys
from tests.engines.s3_servers import BUCKET, CREDENTIALS, Request, between, moto

EXPERIMENT = "made"
LOOKS = {
    "status": ("-m", "swarm", "status"),
    "logs -n 50": ("-m", "swarm", "logs", "-n", "50"),
    "summary": ("-m", "swarm", "summary"),
    "restart": (
        "-c",
        "import sys; from swarm.records.rows import read_rows; from swarm.store.place import open_place\n"
        f"assert len(read_rows(open_place(sys.argv[1]).open({EXPERIMENT!r}, None), 'worker-0').rows) > 0",
    ),
}
"""What Python runs; the last reads one node's own rows, as it does when it starts again."""


def filled(url: str, folder: Path, rounds: int, nodes: int) -> Counter[str]:
    """Writes the run; returns the requests that its rows took."""
    make_place(folder, rounds, nodes, EXPERIMENT, with_rollouts=2)
    here = folder / "experiments" / EXPERIMENT
    for node in range(nodes):
        store = open_place(url).store(EXPERIMENT, name(node))
        for key in (keys.EXPERIMENT, keys.STATE, keys.peer(name(node))):
            store.put(key, (here / key).read_bytes())
        starts = (here / keys.starts(name(node))).read_bytes().splitlines()
        store.append_records(keys.starts(name(node)), starts, durable=True)
    before, spent = Counter[str](), Counter[str]()
    growing.GRACE = 0.0  # the days of the run are a minute here
    for node in range(nodes):
        store = open_place(url).store(EXPERIMENT, name(node))
        before.update(asked(store))
        for row in (here / keys.metrics(name(node))).read_bytes().splitlines():
            store.append_records(keys.metrics(name(node)), [row], durable=True)
        spent.update(asked(store))
    return spent - before


def asked(store: Store) -> Counter[str]:
    """What a handle of a bucket has asked so far."""
    spent = store.facts().spent
    assert spent
    return spent.requests


def measure(rounds: int, nodes: int, delay: float, repeats: int) -> dict[str, Any]:
    """Requests, bytes and seconds of each look."""
    seen: list[Request] = []

    def plan(method: str, path: str) -> str:
        time.sleep(delay)
        return "pass"

    with moto() as server, tempfile.TemporaryDirectory() as folder:
        environ = without_settings(os.environ) | CREDENTIALS
        os.environ.update(CREDENTIALS)
        spent = filled(f"s3://{BUCKET}/place?endpoint=http://127.0.0.1:{server}", Path(folder), rounds, nodes)
        found: dict[str, Any] = {
            "rounds": rounds,
            "requests_per_row": {kind: round(number / rounds / nodes, 3) for kind, number in spent.items()},
        }
        with between(server, plan, seen=seen.append) as port:
            url = f"s3://{BUCKET}/place?endpoint=http://127.0.0.1:{port}"
            for look, words in LOOKS.items():
                where = [url] if words[0] == "-c" else ["--path", url, "--experiment", EXPERIMENT]
                seconds = []
                for _ in range(repeats):
                    seen.clear()
                    began = time.perf_counter()
                    subprocess.run([sys.executable, *words, *where], env=environ, check=True, capture_output=True)
                    seconds.append(round(time.perf_counter() - began, 2))
                found[look] = {
                    "requests": len(seen),
                    "bytes": sum(one.received for one in seen),
                    "seconds_median": statistics.median(seconds),
                }
    return found


def main() -> None:
    parser = arguments_of(__doc__, threads=None)
    parser.add_argument("--rounds", type=int, nargs="+", default=[20, 500, 5000])
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--delay", type=float, default=0.01, help="seconds before each request")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.repeats = [20, 100], 1
    found = [measure(rounds, arguments.nodes, arguments.delay, arguments.repeats) for rounds in arguments.rounds]
    keep("bucket_looks", {"nodes": arguments.nodes, "delay": arguments.delay, "places": found}, arguments)


if __name__ == "__main__":
    main()
