"""Submits programs as jobs, asks after them and cancels them.

    Launch ─▶ SlurmBackend ─submitit─▶ sbatch ─▶ Job on the cluster's node
                   │ squeue: does it wait or run?
                   └ {job}.exit: how did it end?    what came out of it is in the folder of the run, and only there

A job is found again by its name, which is made of place, experiment and part: nothing has to be remembered for a
command to see what an earlier one submitted. submitit's folder is this user's alone, for jobs run what lies in it.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import stat
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swarm.config.place import is_url
from swarm.errors import ClusterError, ConfigError
from swarm.extras import lacking
from swarm.plugins.slurm.job import WRITER, Job, mark_key
from swarm.plugins.slurm.job_supervisor import JobSupervisor
from swarm.plugins.slurm.program import SlurmProgram
from swarm.plugins.slurm.queue import Queue
from swarm.plugins.slurm.resources import Resources
from swarm.programs import Launch
from swarm.store.place import open_place
from swarm.systems import own_state_folder

NEEDED = ("sbatch", "squeue", "scancel", "srun")
MOST_TIMEOUTS = 100
"""How often a job whose time is up is queued again."""
FOREIGN = "SLURM_"
"""Variables of the job, if any, in which a command is typed: they would be taken for wishes."""
KEPT = ("SLURM_CONF",)


@dataclass(frozen=True)
class SlurmBackend:
    """The jobs of one command."""

    resources: Resources
    folder: Path
    """Folder for scripts and logs; every machine of the cluster sees it."""
    queue: Queue
    stays = True

    def start(self, launch: Launch) -> SlurmProgram:
        """Submit a job. Raises ClusterError: Slurm does not take it."""
        name, mark = job_name(launch.place, launch.experiment, launch.part), uuid.uuid4().hex
        folder = _made(self.folder) / name
        if not is_url(launch.place):
            open_place(launch.place).store(launch.experiment, WRITER).put(mark_key(mark), b"", durable=False)
        job = Job(launch.command, launch.place, launch.experiment, mark, launch.log, seen=is_url(launch.place))
        parameters = {**self.resources_of(launch.part).parameters(), "job_name": name}
        job_id = _submit(folder, parameters, launch.environment, job)
        self.queue.add(name, job_id)
        return SlurmProgram(job_id, name, folder, self.queue)

    def resources_of(self, part: str) -> Resources:
        """Returns the resources that the job of a part is to have."""
        return self.resources.light() if part in LIGHT else self.resources

    def has(self, place: str, experiment: str) -> bool:
        """Tells whether the job of an experiment's swarm, submitted earlier, waits or runs."""
        return self.found(place, experiment) is not None

    def found(self, place: str, experiment: str, part: str = "") -> SlurmProgram | None:
        """Returns a job that was submitted earlier, if it waits or runs."""
        name = job_name(place, experiment, part)
        queued = self.queue.find(name)
        return SlurmProgram(queued.id, name, self.folder / name, self.queue) if queued else None

    @property
    def cores(self) -> int:
        """The processors of a job."""
        return self.resources.cpus or 1

    def describe(self, programs: Sequence[tuple[str, str, str]]) -> str:
        """Returns which jobs would be submitted, and with what.

        Args:
            programs: place, experiment and part of each.
        """
        lines = []
        for place, experiment, part in programs:
            found = self.found(place, experiment, part)
            there = f"is in the queue: {found.note()}" if found else self.resources_of(part).describe()
            lines.append(f"{job_name(place, experiment, part)}  {there}")
        return "\n".join([f"jobs of Slurm, with scripts and logs in {self.folder}:", *(f"  {line}" for line in lines)])

    def how_to_follow(self, ids: Sequence[str], again: str) -> str:
        """Returns what to tell who leaves jobs to themselves."""
        many = " ".join(ids)
        if not ids:
            return f"no job is left; go on: {again}"
        look = f"squeue --jobs {','.join(ids)}"
        return f"jobs {many} go on without this. Follow them: {again}\nlook: {look}; cancel: scancel {many}"

    def jobs(self, place: str, experiment: str, environ: Mapping[str, str]) -> JobSupervisor:
        """Returns the daemons of an experiment."""
        return JobSupervisor(self, place, experiment, environ)


LIGHT = ("coordinator", "judge")
"""Parts that load no model."""


def job_name(place: str, experiment: str, part: str = "") -> str:
    """Returns the same for the same program of an experiment in a place, whoever asks."""
    digest = hashlib.blake2b(f"{place}\0{experiment}".encode("utf-8", "surrogateescape"), digest_size=4)
    return "-".join(filter(None, ("swarm", experiment, part, digest.hexdigest())))


def slurm_backend(resources: Resources, folder: str | None) -> SlurmBackend:
    """Raises ConfigError: Slurm or submitit is not there, or the folder is not this user's alone."""
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        raise ConfigError(
            f"--on slurm: {', '.join(missing)} not found: expected Slurm's commands on PATH; type this on a login node "
            "of the cluster (or `module load slurm` first), or leave --on out"
        )
    _submitit()
    own = (
        Path(folder) if folder else own_state_folder() / "slurm"
    )  # in the home folder, which a cluster's machines share
    return SlurmBackend(resources, refuse_others(own.absolute()), Queue(time.monotonic))


def refuse_others(folder: Path) -> Path:
    """Returns the folder. Raises ConfigError: others may write in it, and so give us code to run."""
    with suppress(FileNotFoundError):
        found = folder.stat()
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ConfigError(
                f"--slurm-folder {folder}: expected a folder that its owner alone, user {os.geteuid()}, may write, got "
                f"owner {found.st_uid} and mode {stat.S_IMODE(found.st_mode):o}; jobs run what lies in it: "
                "chmod go-w, or name another"
            )
    return folder


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--slurm-folder {folder} cannot be made: {error.strerror or error}; name another") from None
    return refuse_others(folder)


def _submitit() -> Any:
    try:
        import submitit
    except ImportError:
        raise lacking("--on slurm", "submitit", "slurm", "leave --on out") from None
    return submitit


def _submit(folder: Path, parameters: Mapping[str, Any], environment: Mapping[str, str], job: Job) -> str:
    """Returns the id of the new job. Raises ClusterError: what Slurm says against it."""
    submitit = _submitit()
    try:
        executor = submitit.SlurmExecutor(folder=folder, max_num_timeout=MOST_TIMEOUTS)
        executor.update_parameters(**parameters)
        with _as_environment(environment), redirect_stderr(io.StringIO()):  # what sbatch says is in the error, too
            return str(executor.submit(job).job_id)
    except (submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError, OSError) as error:
        raise ClusterError(
            f"Slurm does not take the job {parameters['job_name']}: {str(error).strip()}; it has the partitions "
            f"{_partitions() or 'none'}. Check the --slurm flags"
        ) from None


@contextmanager
def _as_environment(environment: Mapping[str, str]) -> Iterator[None]:
    """sbatch hands the environment on to the job, secrets included, and submitit gives it ours: for the block it is
    the job's. The process that submits has a single thread."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update({k: v for k, v in environment.items() if not k.startswith(FOREIGN) or k in KEPT})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _partitions() -> str:
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            ["sinfo", "--noheader", "--format=%R"], capture_output=True, text=True, timeout=60, check=False
        )
        return ", ".join(sorted(set(done.stdout.split())))
    return ""
