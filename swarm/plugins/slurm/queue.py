"""Which of this user's jobs are in Slurm's queue, asked of its controller a few times a minute at most.

`squeue` needs no accounting database, which many clusters lack and without which a job's state reads UNKNOWN. It says
who waits and who runs, and nothing of what came out: that is in the folder of the run.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from typing import NamedTuple

LOOK_SECONDS = 5.0
"""Between two questions to the controller, which serves the whole cluster."""
TIMEOUT = 60.0
COMMAND = ("squeue", "--noheader", "--format=%i|%T|%r|%j")


class Queued(NamedTuple):
    """A job that waits or runs."""

    id: str
    state: str
    """As Slurm calls it, such as PENDING."""
    reason: str
    """Why it waits."""

    @property
    def note(self) -> str:
        """For people."""
        why = f", {self.reason}" if self.state == "PENDING" and self.reason not in ("None", "") else ""
        return f"job {self.id} {self.state.lower()}{why}"


def parse(said: str) -> dict[str, Queued]:
    """Name -> job, of what `squeue` said; lines that are no job are passed over."""
    rows = [line.split("|", 3) for line in said.splitlines()]
    return {row[3].strip(): Queued(*(part.strip() for part in row[:3])) for row in rows if len(row) == 4}


def ask_slurm() -> str | None:
    """What `squeue` says of this user's jobs; None where the controller does not answer."""
    command = [*COMMAND, f"--user={os.getuid()}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


class Queue:
    """The queue as last seen. While the controller does not answer, it is as it was."""

    def __init__(self, monotonic: Callable[[], float], ask: Callable[[], str | None] = ask_slurm) -> None:
        self._monotonic = monotonic
        self._ask = ask
        self._jobs: dict[str, Queued] = {}
        self._look_at = float("-inf")

    def find(self, name: str) -> Queued | None:
        """The job of this name, if it waits or runs."""
        if (now := self._monotonic()) >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            if (said := self._ask()) is not None:
                self._jobs = parse(said)
        return self._jobs.get(name)

    def add(self, name: str, job_id: str) -> None:
        """A job that has just been submitted."""
        self._jobs[name] = Queued(job_id, "PENDING", "")
