"""A job that was submitted, as a program: whether it waits, runs or has ended, and what it said."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from swarm.plugins.slurm.job import exit_file
from swarm.plugins.slurm.queue import Queue

MOST_READ = 1 << 20
"""Bytes of the end of a job's log."""
UNKNOWN = -1
"""Exit code of a job that was killed, or of which nothing is known."""


@dataclass(frozen=True)
class SlurmProgram:
    """One job, as a program that was started."""

    id: str
    name: str
    folder: Path
    """Folder of its script and its log."""
    queue: Queue

    def poll(self) -> int | None:
        """Done is done; of any other end Slurm says whether the job is queued again."""
        code, _ = self._exit()
        if code == 0:
            return 0
        if self.queue.find(self.name) is not None:
            return None
        return UNKNOWN if code is None else code

    def ending(self) -> str:
        """Says how it ended, and where to read on."""
        code, why = self._exit()
        if code is not None:
            return f"job {self.id} ended with exit code {code}: {why or f'its log is {self.log}'}"
        if not self.log.exists():
            return (
                f"job {self.id} ended without a word: expected its log {self.log}. Do the cluster's machines see that "
                f"folder, which --slurm-folder names, and {sys.executable}?"
            )
        return f"job {self.id} was cancelled or killed; its log: {self.log}"

    def note(self) -> str:
        """Tells whether it waits, and for what."""
        queued = self.queue.find(self.name)
        return queued.note if queued else f"job {self.id}"

    def send_signal(self, number: int, /) -> None:
        """Cancel it: a SIGTERM to all its processes, and a SIGKILL later."""
        subprocess.run(["scancel", self.id], capture_output=True, check=False)

    def kill(self) -> None:
        """Cancel it."""
        self.send_signal(0)

    @property
    def log(self) -> Path:
        """Returns the file of what the job said, as far as it goes nowhere else."""
        return self.folder / f"{self.id}_0_log.out"

    def last_lines(self, most: int) -> list[str]:
        """Returns the end of it; nothing where it cannot be read."""
        with suppress(OSError), self.log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - MOST_READ))
            return file.read(MOST_READ).decode("utf-8", "replace").splitlines()[-most:]
        return []

    def _exit(self) -> tuple[int | None, str]:
        """Returns its exit code and why it did not begin, as it wrote them down; None: it has not."""
        with suppress(OSError, ValueError):
            code, _, why = exit_file(self.folder, self.id).read_text("utf-8", "replace").partition(" ")
            return int(code), why
        return None, ""
