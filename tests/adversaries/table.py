"""What each attack on the folder costs an honest swarm: one row per attack.

    python -m tests.adversaries.table --path FOLDER --jobs 4               # each written once
    python -m tests.adversaries.table --path FOLDER --every-second
    python -m tests.adversaries.table --path FOLDER --signed --attacks "bare-rewards,new-name"
    python -m tests.adversaries.table --path FOLDER --every-second --elsewhere --attacks junk-names

Each row is a swarm of real processes, a coordinator and three workers without torch whose rounds hold half a second of
computing, as on a GPU that leaves the processor free:

    settle ─▶ pace before ─▶ the attack (once, or every second) ─▶ pace during ─▶ no more writes for one interval
           ─▶ pace after ─▶ status, summary, validate --partial, logs, export, experiment list and settings
           ─▶ SIGTERM to all

Columns: rounds per second of the slowest worker before; during and after the attack over that; the longest time
without a round; most memory that a process took more; who ended, or did not end at SIGTERM, and views that failed.
Where several rows are measured at once (`--jobs`), an attack that takes processor time slows the others' rows as well:
measure those that matter alone. Exit code 1 if any node or view was lost.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from swarm.cli.say import say
from swarm.config import without_settings
from tests.adversaries.attacks import EVERY_SECOND, ONCE, Attack, Target
from tests.chaos.light_worker import FIXED_STEP
from tests.integration.swarms import LIGHT, Daemon, Start, daemons, run_swarm, well
from tests.layout import Layout

WORKERS = ("w0", "w1", "w2")
INTERVAL_S = 5.0
"""COORDINATOR_ROUND_INTERVAL: what an attack that is written once may cost at most."""
BEFORE_S, DURING_S, AFTER_S = 15.0, 20.0, 12.0
STEP_S = 0.25
"""Of generating, and of training; the processor is free."""
START_S, STOP_S, VIEW_S = 120.0, 20.0, 60.0
VIEWS = (
    ("status", "--json"),
    ("summary", "--json"),
    ("validate", "--partial", "--json"),
    ("logs", "-n", "5"),
    ("export", "--table", "metrics", "-o", "-"),
    ("experiment", "list"),
    ("status", "--started"),
)
"""Each ends with exit code 0, or 1 where it found fault with the run."""
SETTINGS = {
    "EXPERIMENT_NAME": "attacked",
    "MODEL_NAME": "fake",
    "MAX_ROUNDS": "1000000",
    "NUM_TRAIN_SAMPLES": "2",
    "NUM_TRANSPLANT_TREES": "2",
    "NUM_GENERATIONS": "4",
    "CHECKPOINT_INTERVAL": "10",
    "COORDINATOR_ROUND_INTERVAL": f"{INTERVAL_S:g}",
    "SWARM_EXPECTED_WORKERS": "3",
    "SWARM_THREADS": "1",
    "SWARM_MAX_NEW_TOKENS": "8",
    "SWARM_HEARTBEAT_INTERVAL": "0.5",
    "SWARM_LIVENESS_TIMEOUT": "10",
    "SWARM_RECONCILE_INTERVAL": "0.5",
    "SWARM_LOG_LEVEL": "warning",
    FIXED_STEP: f"{STEP_S:g}",
}


class Row(NamedTuple):
    """What one attack did."""

    before: float
    """Rounds per second of the slowest worker."""
    during: float
    after: float
    longest: float
    """Seconds without a round of some worker, from the attack on."""
    megabytes: float
    """Most that a process took more than before."""
    lost: tuple[str, ...]
    """Nodes that ended by themselves or did not end when asked, and views that failed."""


class Swarm:
    """A coordinator and workers on one folder."""

    def __init__(self, path: Path, start: Start, *, signed: bool) -> None:
        self.layout = Layout(path.absolute(), SETTINGS["EXPERIMENT_NAME"])
        self.environment = {**without_settings(os.environ), **SETTINGS, "SWARM_PATH": str(path.absolute())}
        self.environment |= {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONSAFEPATH": "1"}
        if signed:
            self.environment |= {"SWARM_SIGNING": "require", "SWARM_KEY_FOLDER": str(path.absolute() / "keys")}
            well(self.environment, "keys", "new")
        self.target = Target(self.layout, victim=WORKERS[0], honest="w")
        modules = {"clock": "services.coordinator", **dict.fromkeys(WORKERS, LIGHT)}
        self._nodes = {name: start(module, self.environment | {"NODE_ID": name}) for name, module in modules.items()}

    def rounds(self) -> dict[str, int]:
        """Rounds of which each worker has published its rollouts."""
        found = dict.fromkeys(WORKERS, 0)
        with os.scandir(self.layout.rollouts) as folders:
            numbers = [f.name for f in folders if f.is_dir(follow_symlinks=False)]
        for name in numbers:
            for worker in WORKERS:
                found[worker] += (self.layout.rollouts / name / "stage_0" / f"{worker}.json").is_file()
        return found

    def _alive(self) -> dict[str, Daemon]:
        return {name: node for name, node in self._nodes.items() if node.process.poll() is None}

    def memory(self) -> dict[str, float]:
        """Resident MB of the processes that live."""
        return {name: _resident(node.process.pid) for name, node in self._alive().items()}

    def ended(self) -> list[str]:
        gone = self._nodes.keys() - self._alive().keys()
        return [f"{name} ended ({self._nodes[name].process.poll()})" for name in sorted(gone)]

    def stop(self) -> list[str]:
        """Ask all to end; those that do not in time, or not well."""
        living = self._alive()
        for node in living.values():
            node.signal(signal.SIGTERM)
        until = time.monotonic() + STOP_S
        wrong = []
        for name, node in living.items():
            try:
                code = node.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                wrong.append(f"{name} is deaf")
            else:
                wrong += [f"{name} ended badly ({code})"] if code not in (0, 130, 143) else []
        return wrong

    def failing_views(self) -> list[str]:
        """Views that crash, hang, or end with a code that says neither well nor fault found."""
        wrong = []
        for view in VIEWS:
            try:
                done = run_swarm(self.environment, *view, timeout=VIEW_S)
            except subprocess.TimeoutExpired:
                wrong.append(f"{' '.join(view[:2])} hangs")
                continue
            if done.returncode not in (0, 1) or "Traceback" in done.stderr:
                wrong.append(f"{' '.join(view[:2])} fails ({done.returncode})")
        return wrong


class Watch:
    """How the rounds of a swarm go on, over one span of time."""

    def __init__(self, swarm: Swarm) -> None:
        self._swarm = swarm
        self.longest = 0.0
        self.megabytes = 0.0
        self._newest = (swarm.rounds(), time.monotonic())
        self._since = dict.fromkeys(WORKERS, time.monotonic())

    def over(self, seconds: float, memory: dict[str, float], attack: Attack | None = None) -> float:
        """Watch for so long, attacking once a second; the pace of the slowest worker."""
        begun, first = time.monotonic(), self._newest[0]
        tick = 0
        while (now := time.monotonic()) < begun + seconds:
            if attack is not None and now >= begun + tick:
                attack(self._swarm.target, tick)
                tick += 1
            self._look(memory)
            time.sleep(0.1)
        last, now = self._newest
        return min(last[worker] - first[worker] for worker in WORKERS) / (now - begun)

    def _look(self, memory: dict[str, float]) -> None:
        before, (rounds, now) = self._newest[0], (self._swarm.rounds(), time.monotonic())
        for worker in WORKERS:
            if rounds[worker] > before[worker]:
                self._since[worker] = now
            self.longest = max(self.longest, now - self._since[worker])
        self._newest = rounds, now
        grown = [megabytes - memory.get(name, megabytes) for name, megabytes in self._swarm.memory().items()]
        self.megabytes = max(self.megabytes, *grown, 0.0)


def measure(path: Path, name: str, *, every_second: bool, signed: bool, elsewhere: bool) -> Row:
    """One swarm under the attack of this name; or beside it, where a copy of its folder is attacked."""
    attack = (EVERY_SECOND if every_second else ONCE)[name]
    with daemons() as start:
        swarm = Swarm(path, start, signed=signed)
        _settle(swarm)
        watch = Watch(swarm)
        before = watch.over(BEFORE_S, {})
        memory = swarm.memory()
        if elsewhere:
            swarm.target = swarm.target._replace(layout=_copy(swarm.layout, path / "elsewhere"))
        watch = Watch(swarm)
        if every_second:
            during = watch.over(DURING_S, memory, attack)
        else:
            attack(swarm.target, 0)
            during = watch.over(DURING_S, memory)
        watch.over(INTERVAL_S, memory)  # a round that waits for the attacker's names may end with its interval
        after = watch.over(AFTER_S, memory)
        lost = (*swarm.ended(), *swarm.failing_views(), *swarm.stop())
        return Row(before, during, after, watch.longest, watch.megabytes, lost)


def _copy(layout: Layout, path: Path) -> Layout:
    shutil.copytree(layout.root, path / "experiments" / layout.experiment, ignore_dangling_symlinks=True)
    return Layout(path, layout.experiment)


def _settle(swarm: Swarm) -> None:
    """Until every worker has done its first rounds."""
    until = time.monotonic() + START_S
    while not swarm.layout.rollouts.is_dir() or min(swarm.rounds().values()) < 10:
        if time.monotonic() > until or swarm.ended():
            raise SystemExit(f"{swarm.layout.root}: the swarm does not start: {swarm.ended()}")
        time.sleep(0.2)


def _resident(pid: int) -> float:
    try:
        found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except OSError:
        return 0.0
    return int(found[1]) / 1000 if found else 0.0


def main() -> int:
    options = _options()
    names = options.attacks.split(",") if options.attacks else [*(EVERY_SECOND if options.every_second else ONCE)]
    say(f"{'attack':<32} {'before/s':>8} {'during':>7} {'after':>7} {'longest':>8} {'MB':>6}  lost")
    row_of = partial(measure, every_second=options.every_second, signed=options.signed, elsewhere=options.elsewhere)
    lost = False
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as processes:
        paths = [options.path / f"{number:03}" for number in range(len(names))]
        for name, row in zip(names, processes.map(row_of, paths, names), strict=True):
            lost |= bool(row.lost)
            say(_as_text(name, row))
    return int(lost)


def _as_text(name: str, row: Row) -> str:
    during, after = (f"{pace / row.before:.0%}" if row.before else "-" for pace in (row.during, row.after))
    return (
        f"{name:<32} {row.before:>8.2f} {during:>7} {after:>7} {row.longest:>6.1f} s {row.megabytes:>+6.0f}  "
        f"{', '.join(row.lost) or '-'}"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, required=True, help="an empty folder, for the swarms")
    parser.add_argument("--every-second", action="store_true", help="attack every second; else once")
    parser.add_argument("--signed", action="store_true", help="with SWARM_SIGNING=require; the attacker has no key")
    parser.add_argument("--attacks", default="", help="names separated by commas; else all")
    parser.add_argument(
        "--elsewhere", action="store_true", help="attack a copy: what the attacker's own work costs here"
    )
    parser.add_argument("--jobs", type=int, default=1, help="rows at once")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
