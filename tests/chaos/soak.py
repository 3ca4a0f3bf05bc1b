"""A run of days by its rounds: two workers and a coordinator do 20,000 of them, and nothing of them may grow.

    python -m tests.chaos.soak --rounds 20000 --path DIR      # stopped or killed, the same command goes on
    python -m tests.chaos.soak --rounds 20000 --path DIR --table   # what was measured so far, and nothing is started

The nodes are real processes on a real folder, with a cleanup, checkpoints and logs that rotate; only the policy and the
questions are made up (light_worker), so that a round costs milliseconds and not seconds. Measures are taken all the
while and kept in DIR/measures.jsonl; soaked.py tells them by quarter, and says what drifts. Exit code 1 if anything
does, or if `swarm validate` does not call the run whole.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from swarm.cli.say import say
from swarm.records.files import read_clock
from tests.chaos.campaign import environment_of, failing
from tests.chaos.soaked import Measures, Node, drifts, quarters, table
from tests.integration.swarms import LIGHT, Daemon, daemons
from tests.layout import Layout

EXPERIMENT = "soak"
NODES = {"clock": "services.coordinator", "anna": LIGHT, "ben": LIGHT}
DIES_WITH_PARENT = ["setpriv", "--pdeathsig", "KILL"]
"""A soak that is killed leaves no nodes to the next one."""
LOOK_EVERY = 1.0
"""Seconds."""
MEASURES = 200
"""Of a whole run."""
STILL = 600.0
"""Seconds without a new round after which the run is given up: it stands."""
_TICK = os.sysconf("SC_CLK_TCK")


def soak_environment(path: Path, rounds: int) -> dict[str, str]:
    """A swarm whose rounds are as short as the node's own work."""
    return environment_of(
        GDRIVE_PATH=path.absolute(),
        EXPERIMENT_NAME=EXPERIMENT,
        MODEL_NAME="fake",
        SWARM_PROFILE="tiny-2",
        MAX_ROUNDS=rounds,
        NUM_TRAIN_SAMPLES=1,
        NUM_TRANSPLANT_TREES=1,
        NUM_GENERATIONS=2,
        CHECKPOINT_INTERVAL=10,
        COORDINATOR_ROUND_INTERVAL=60,
        ROLLOUT_CLEANUP_ENABLED=True,
        ROLLOUT_KEEP_LAST_N_ROUNDS=5,
        SWARM_EXPECTED_WORKERS=2,
        LIGHT_STEP=0,
    )


class Soak:
    """The nodes, and what is measured of them."""

    def __init__(self, path: Path, rounds: int) -> None:
        self._rounds = rounds
        self._layout = Layout(path.absolute(), EXPERIMENT)
        self._file = path / "measures.jsonl"
        self._environment = soak_environment(path, rounds)
        self._nodes: dict[str, Daemon] = {}

    def run(self) -> list[str]:
        """To the last round; what went wrong with the nodes."""
        with daemons() as start:
            for name, module in NODES.items():
                self._nodes[name] = start(module, self._environment | {"NODE_ID": name}, enter=DIES_WITH_PARENT)
            try:
                return [*self._watch(), *self._ended()]
            finally:
                for node in self._nodes.values():
                    node.signal(signal.SIGTERM)
                for node in self._nodes.values():
                    with suppress(subprocess.TimeoutExpired):
                        node.wait(60)

    def measured(self) -> list[Measures]:
        """Of this run and those that were broken off."""
        lines = self._file.read_bytes().splitlines() if self._file.exists() else []
        found = []
        for line in lines:
            with suppress(msgspec.DecodeError):  # a kill may tear the last one
                found.append(msgspec.json.decode(line, type=Measures))
        return found

    def validated(self) -> list[str]:
        """What `swarm validate` finds."""
        return [*failing(self._environment, "validate", "--nodes", "2")]

    def _watch(self) -> Iterator[str]:
        every = max(1, self._rounds // MEASURES)
        last, since, due = self._round(), time.monotonic(), 0
        while all(node.process.poll() is None for node in self._nodes.values()):
            time.sleep(LOOK_EVERY)
            now = self._round()
            if now >= due:
                self._measure(now)
                due = now - now % every + every
            if now > last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > STILL:
                yield f"no round ended in {STILL:g} s: the clock stands at round {now}"
                return

    def _ended(self) -> Iterator[str]:
        """Who ends before the others is an error, unless all do."""
        for name, node in self._nodes.items():
            try:
                code = node.wait(120)
            except subprocess.TimeoutExpired:
                yield f"{name} did not end"
                continue
            if code:
                yield f"{name} ended with exit code {code}: {node.output[-2000:]}"

    def _round(self) -> int:
        state, _ = read_clock(self._layout.run)
        return state.round if state else 0

    def _measure(self, round_: int) -> None:
        nodes = {}
        for name, node in self._nodes.items():
            with suppress(OSError):  # it ends
                nodes[name] = _measured(node.process.pid)
        found = Measures(round_, time.time(), nodes, *_counted(self._layout.root))
        with self._file.open("ab") as file:
            file.write(msgspec.json.encode(found) + b"\n")


def _measured(pid: int) -> Node:
    """What a process takes of the machine, as Linux counts it. Raises OSError."""
    proc = Path(f"/proc/{pid}")
    stat = (proc / "stat").read_text().rpartition(")")[2].split()
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    return Node(
        pid,
        rss=int(status["VmRSS"].split()[0]) * 1024,
        descriptors=len(list((proc / "fd").iterdir())),
        watches=sum(_watches(file) for file in (proc / "fdinfo").iterdir()),
        threads=int(status["Threads"]),
        cpu=(int(stat[11]) + int(stat[12])) / _TICK,
    )


def _watches(fdinfo: Path) -> int:
    """Folders that an inotify descriptor watches."""
    with suppress(OSError):
        return fdinfo.read_text().count("inotify wd:")
    return 0


def _counted(root: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Files below each of an experiment's folders; bytes of each kind of log."""
    files: dict[str, int] = {}
    logs: dict[str, int] = {}
    for folder, _, names in os.walk(root):
        top = Path(folder).relative_to(root).parts[:1]
        files[top[0] if top else "."] = files.get(top[0] if top else ".", 0) + len(names)
        for name in names if top == ("logs",) else ():
            with suppress(OSError):
                logs[name] = logs.get(name, 0) + Path(folder, name).stat().st_size
    return files, logs


def _report(soak: Soak, problems: list[str]) -> int:
    found = quarters(soak.measured())
    for line in table(found):
        say(line)
    problems = [*problems, *drifts(found)]
    for problem in problems:
        say(f"! {problem}")
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument(
        "--path", type=Path, required=True, help="a folder of its own, for the swarm and what is measured"
    )
    parser.add_argument("--table", action="store_true", help="tell what was measured so far, and start nothing")
    given = parser.parse_args()
    given.path.mkdir(parents=True, exist_ok=True)
    soak = Soak(given.path, given.rounds)
    if given.table:
        return _report(soak, [])
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    return _report(soak, soak.run() + soak.validated())


if __name__ == "__main__":
    raise SystemExit(main())
