"""What a job does on the cluster's node: see that the place is the one that it was submitted for, run its command,
write down how that ended.

    submitted ─▶ running ─▶ ended                 {job}.exit beside its script
                    │ its time is nearly up, or another job is to have its node: SIGUSR2, by submitit
                    └─▶ the swarm saves ─▶ queued again ─▶ running: goes on where it was

It is pickled into the folder of the job's script, so it holds no secrets: those come with the job's environment.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swarm.errors import ProtocolError
from swarm.programs import LogOf
from swarm.store.place import open_place
from swarm.wire.keys import DRAFTS

WRITER = "slurm"
REFUSED = 2
SAVING_SECONDS = 75.0
"""For a swarm to finish its step and save, before the cluster ends it."""
POLL_SECONDS = 0.1


def mark_key(mark: str) -> str:
    """Of the file in the experiment by which a job sees that this is the place in which it was submitted."""
    return f"{DRAFTS}/{WRITER}/{mark}"


def exit_file(folder: Path, job_id: str) -> Path:
    """Where a job writes its exit code, and why it did not begin."""
    return folder / f"{job_id}.exit"


@dataclass
class Job:
    """Called by submitit in the job."""

    command: tuple[str, ...]
    place: str
    experiment: str
    mark: str
    log: LogOf | None
    seen: bool = False
    """It has begun before."""
    _child: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)

    def __call__(self) -> int:
        """Run the command to its end; its exit code."""
        ended = exit_file(Path(os.environ["SUBMITIT_FOLDER"]), os.environ["SLURM_JOB_ID"])
        ended.unlink(missing_ok=True)
        why = "" if self.seen else self._why_not()
        code = REFUSED if why else self._run()
        ended.write_text(f"{code} {why}")
        if code:
            sys.exit(code)  # for who looks at it with Slurm's own commands
        return code

    def checkpoint(self) -> Any:
        """Let the swarm save; what to submit again."""
        from submitit.helpers import DelayedSubmission

        if self._child is not None:
            self._child.send_signal(signal.SIGTERM)
            if not _ends_within(SAVING_SECONDS, self._child.pid):
                self._child.kill()  # it redoes what it had not saved
        return DelayedSubmission(Job(self.command, self.place, self.experiment, self.mark, self.log, seen=True))

    def _why_not(self) -> str:
        """That this is another folder of the place's name, if it is: a swarm would begin to fill it."""
        if os.environ.get("SLURM_RESTART_COUNT", "0") != "0":
            return ""
        try:
            open_place(self.place).store(self.experiment, None).get(mark_key(self.mark), 1)
        except (OSError, ProtocolError):
            return (
                f"{self.place} on {socket.gethostname()} is not the folder that this job was submitted for: expected "
                "one that all machines of the cluster share, got another or none; choose another --path"
            )
        return ""

    def _run(self) -> int:
        with self._output() as output, _deaf_to(signal.SIGUSR2):  # Slurm sends it to every process of the job
            child = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
            self._child = child
        with child:
            # Not one long wait: a signal that was sent while the job was suspended can wake another thread than this.
            while (code := child.poll()) is None:
                time.sleep(POLL_SECONDS)
            return code

    @contextmanager
    def _output(self) -> Iterator[int | None]:
        if self.log is None:
            yield None
            return
        with closing(open_place(self.place).beside(self.log.folder, WRITER).open_log(self.log.key)) as log:
            yield log.fileno()


def _ends_within(seconds: float, pid: int) -> bool:
    """Whether a child ends by then. Called by a signal's handler, which may have interrupted a look at that child: so
    it is looked at from outside of subprocess, whose lock can be taken, and left for the next look."""
    deadline = time.monotonic() + seconds
    try:
        while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
    except ChildProcessError:  # the interrupted look has seen its end
        pass
    return True


@contextmanager
def _deaf_to(number: signal.Signals) -> Iterator[None]:
    """A program that is started in the block ignores a signal."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)
