"""The daemons of `swarm up --on slurm`: each a job, which goes on when this ends.

    found in the queue, or submitted ─▶ waits ─▶ runs ─exit 0─▶ ended
                                          ▲        └─any other end─▶ said; the others go on without it
                                          └ Slurm queues it again: its time was up, or its node was wanted
    stop() leaves all of them to themselves

What `Supervisor` is for processes of this machine.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import Protocol

import anyio

from swarm.children import child_environment, module_command
from swarm.cli.elsewhere import part_of
from swarm.cli.say import say
from swarm.cli.supervisor import LINES_KEPT, DaemonChild
from swarm.config import DAEMONS, without_settings
from swarm.plugins.slurm.program import SlurmProgram
from swarm.plugins.slurm.queue import LOOK_SECONDS
from swarm.programs import Launch

POLL_SECONDS = 0.5


class Submitting(Protocol):
    """The parts of a SlurmBackend that a supervisor asks."""

    def start(self, launch: Launch) -> SlurmProgram: ...

    def found(self, place: str, experiment: str, part: str = "") -> SlurmProgram | None: ...

    def how_to_follow(self, ids: Sequence[str], again: str) -> str: ...


class JobSupervisor:
    """Owns nothing: it submits, and looks."""

    def __init__(self, backend: Submitting, place: str, experiment: str, environ: Mapping[str, str]) -> None:
        self._backend = backend
        self._place, self._experiment = place, experiment
        self._environ = dict(environ)
        self._left = False
        self._jobs: dict[str, SlurmProgram] = {}
        self.failure: DaemonChild | None = None
        """The daemon whose job ended badly first."""

    def found(self, part: str) -> SlurmProgram | None:
        """Returns the job of a daemon that was submitted earlier, and waits or runs."""
        return self._backend.found(self._place, self._experiment, part_of(part))

    def unfound(self, children: Sequence[DaemonChild], names: Sequence[str]) -> list[str]:
        """Returns those of these nodes whose daemon is in no job that waits or runs."""
        there = [child.node_id.removesuffix("*") for child in children if self.found(child.node_id)]
        return [
            name
            for name in names
            if not any(name == one or (one.endswith("-") and name.startswith(one)) for one in there)
        ]

    async def run(self, child: DaemonChild) -> None:
        """Submit one, unless it is there, and stay with it until it ends for good, or we leave."""
        if self._left:
            child.exit_code = 0
            return
        job = self._jobs[child.node_id] = self.found(child.node_id) or self._submit(child)
        code, note = None, ""
        while not self._left and (code := job.poll()) is None:
            if (now := job.note()) != note:
                say(f"{child.node_id}: {now}")
                note = now
            await anyio.sleep(POLL_SECONDS)
        child.exit_code = code or 0
        if code:
            child.lines.extend(job.last_lines(LINES_KEPT))
            say(f"{child.node_id}: {job.ending()}; the others go on without it")
            self.failure = self.failure or child

    def _submit(self, child: DaemonChild) -> SlurmProgram:
        environment = child_environment({**without_settings(self._environ), **child.settings})
        command = tuple(module_command("swarm", *DAEMONS[child.role], *child.arguments))
        launch = Launch(command, environment, self._place, self._experiment, part_of(child.node_id))
        return self._backend.start(launch)

    async def heard(self) -> None:
        """Waits a while: a job says nothing here. It stands in for `Supervisor.heard`."""
        await anyio.sleep(LOOK_SECONDS)

    def stop(self, number: signal.Signals) -> None:
        """Leave all jobs to themselves."""
        self._left = True

    def insist(self) -> None:
        """Does nothing: `stop` has already left all jobs to themselves."""

    def left(self) -> list[str]:
        """Returns the ids of the jobs that go on."""
        return [job.id for job in self._jobs.values() if job.poll() is None]

    def how_to_follow(self, again: str) -> str:
        """Returns what to tell who leaves those jobs to themselves."""
        return self._backend.how_to_follow(self.left(), again)
