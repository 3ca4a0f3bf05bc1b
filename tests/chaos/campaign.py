"""A local swarm of real processes, some of which are killed at any moment and started again.

    start all ─▶ [ wait a random while ─▶ kill -9 one or two ─▶ start them again, at once or later ] x N
              ─▶ all on their feet ─▶ a coordinator that knows a last round ─▶ everybody ends with exit code 0

A kill takes the process alone, as the machine would: the children it had must find out by themselves.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from swarm.cli.say import say
from swarm.config import without_settings
from swarm.records.files import read_clock
from swarm.records.rows import read_rows
from tests.chaos.phases import REDOING, SAVING, STARTING, Phases
from tests.layout import Layout

ENDLESS = 1_000_000
"""Rounds, as long as there are kills to come."""
LAST_ROUNDS = 5
"""That the swarm is given after the last kill."""
PAUSE = 0.004
"""Seconds between two looks at what the victims are doing."""
AIM_FOR = 30.0
"""Seconds that the campaign waits for somebody to be in the phase it aims at."""
WORKING = "working"
MODES = {"any": 3, "two": 3, WORKING: 9, STARTING: 3, SAVING: 3, REDOING: 4}
"""Whom to kill, and how often: anybody, two at once, somebody who is past its start, or somebody in this phase."""


@dataclass
class Process:
    """One node, through all its lives."""

    name: str
    command: list[str]
    environment: dict[str, str]
    phases: Phases
    said: Path
    running: subprocess.Popen[bytes] | None = None
    start_at: float = 0.0
    started_at: float = 0.0

    def start(self) -> None:
        """Another life."""
        self.phases.started()
        with self.said.open("ab") as said:
            self.running = subprocess.Popen(
                self.command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.started_at = time.monotonic()

    def kill(self) -> list[int]:
        """As the machine would. Returns the children that it had."""
        assert self.running is not None
        children = descendants(self.running.pid)
        self.running.kill()
        self.running.wait()
        self.running = None
        return children


@dataclass
class Campaign:
    """Kills and restarts; what it found is in `killed` and `violations`."""

    layout: Layout
    coordinator: Process
    workers: list[Process]
    rng: random.Random
    pause: float
    """Mean seconds between two kills."""
    killed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By role and phase."""
    violations: list[str] = field(default_factory=list)
    orphans: list[int] = field(default_factory=list)

    @property
    def processes(self) -> list[Process]:
        return [self.coordinator, *self.workers]

    def run(self, kills: int, patience: float) -> None:
        """All of it; whatever still runs at the end is killed."""
        try:
            for process in self.processes:
                process.start()
            while self.killed.total() < kills:
                self._rest(self.rng.expovariate(1 / self.pause))
                before = self.killed.total()
                self._strike()
                if self.killed.total() // 10 > before // 10:
                    say(f"{self.killed.total()} kills")
            self._let_finish(patience)
        finally:
            for process in self.processes:
                if process.running is not None:
                    process.kill()

    # ── killing ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def _strike(self) -> None:
        mode = self.rng.choices(list(MODES), list(MODES.values()))[0]
        victims = self._aim(mode)
        for process in victims:
            role = "coordinator" if process is self.coordinator else "worker"
            self.killed[role, process.phases.now()] += 1
            self.orphans += process.kill()
            process.start_at = time.monotonic() + self._absence()

    def _aim(self, mode: str) -> list[Process]:
        """Whoever is to be hit, in the phase aimed at if anybody comes into it soon."""
        if mode not in ("any", "two"):
            deadline = time.monotonic() + AIM_FOR
            while time.monotonic() < deadline:
                self._rest(PAUSE)
                if hit := [process for process in self._running() if _is_in(mode, process.phases.now())]:
                    self._rest(self.rng.uniform(0, 2.0 if mode == STARTING else 0.02))
                    return [process for process in [self.rng.choice(hit)] if process.running is not None]
        running = self._running()
        return self.rng.sample(running, min(len(running), 2 if mode == "two" else 1))

    def _running(self) -> list[Process]:
        return [process for process in self.processes if process.running is not None]

    def _absence(self) -> float:
        """Seconds until the next life: often none, sometimes long enough for the others to go on alone."""
        kind = self.rng.random()
        return 0.0 if kind < 0.5 else self.rng.expovariate(0.5) if kind < 0.88 else 15.0

    # ── living ──────────────────────────────────────────────────────────────────────────────────────────────────────
    def _rest(self, seconds: float) -> None:
        """Wait, and start meanwhile whoever's time has come."""
        until = time.monotonic() + seconds
        while True:
            self._tend()
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 0.02))

    def _tend(self) -> None:
        for process in self.processes:
            if process.running is not None and (code := process.running.poll()) is not None:
                self.violations.append(f"{process.name} ended by itself with exit code {code}")
                process.running, process.start_at = None, time.monotonic() + 1.0
            if process.running is None and process.start_at <= time.monotonic():
                process.start()

    def _let_finish(self, patience: float) -> None:
        """Everybody comes back and is at work; then a coordinator with a last round takes over from the endless one."""
        say("no more kills: everybody comes back, and the swarm is to finish")
        deadline = time.monotonic() + patience
        for process in self.processes:
            process.start_at = 0.0
        self._rest(0.0)
        while (
            any(worker.phases.now() in (STARTING, REDOING) for worker in self.workers) and time.monotonic() < deadline
        ):
            self._rest(0.1)
        self.orphans += self.coordinator.kill()
        state, _ = read_clock(self.layout.run)
        ahead = max([state.round if state else 0, *(self._rounds_done(worker) for worker in self.workers)])
        self.coordinator.environment["MAX_ROUNDS"] = str(ahead + LAST_ROUNDS)
        self.coordinator.start()
        for process in self.processes:
            assert process.running is not None
            try:
                code = process.running.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.violations.append(f"{process.name} did not finish within {patience:g} s")
                continue
            process.running = None
            if code != 0:
                self.violations.append(f"{process.name} ended with exit code {code}")
        self._look_for_orphans()

    def _rounds_done(self, worker: Process) -> int:
        rows = read_rows(self.layout.run, worker.name).rows
        return rows[-1].round + 1 if rows else 0

    def _look_for_orphans(self) -> None:
        """Children of the killed have had time to see that nobody speaks to them any more."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and any(map(_is_running, self.orphans)):
            time.sleep(0.1)
        left = sum(map(_is_running, self.orphans))
        if left:
            self.violations.append(f"{left} children of killed processes still run")


def _is_in(mode: str, phase: str) -> bool:
    return phase not in (STARTING, "loading") if mode == WORKING else phase == mode


def python(*arguments: str) -> list[str]:
    """A command line of this interpreter."""
    return [sys.executable, *arguments]


SMALL = {
    "SEED": 7,
    "NUM_TRAIN_SAMPLES": 2,
    "NUM_TRANSPLANT_TREES": 2,
    "NUM_GENERATIONS": 4,
    "CHECKPOINT_INTERVAL": 5,
    "SWARM_RECONCILE_INTERVAL": 0.5,
    "SWARM_REDO_ROUNDS": 1000,
    "SWARM_LOG_LEVEL": "warning",
}
"""Settings of a swarm whose rounds are short, and which does all of them again that a kill took."""


def environment_of(**settings: object) -> dict[str, str]:
    """A node's, with these settings in place of the small swarm's."""
    return without_settings(os.environ) | {name: str(value) for name, value in (SMALL | settings).items()}


def failing(environment: dict[str, str], *words: str) -> Iterator[str]:
    """What a command of swarm says that should have succeeded."""
    command = python("-m", "swarm", *words)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        yield f"swarm {' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}"


def verdict(violations: Sequence[str]) -> int:
    """Tell what was violated; the exit code."""
    say(f"violations                {len(violations)}")
    for violation in violations:
        say(f"  {violation}")
    return 1 if violations else 0


def descendants(pid: int) -> list[int]:
    """The processes that it started, and those that they did."""
    children: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                children += [int(child) for child in (task / "children").read_text().split()]
    return children + [grandchild for child in children for grandchild in descendants(child)]


def _is_running(pid: int) -> bool:
    """Whether a process is there, and no zombie of somebody else's."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
