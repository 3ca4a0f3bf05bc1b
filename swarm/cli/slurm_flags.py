"""`--on slurm` and what a job is to have: flags of `swarm up` and `swarm study run`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from swarm.errors import ConfigError
from swarm.slurm.backend import SlurmBackend, job_name, slurm_backend
from swarm.slurm.resources import DAY, Resources

_PANEL = Group("Slurm", sort_key=90)
LOCAL, SLURM = "local", "slurm"


def _flag(text: str) -> Parameter:
    return Parameter(help=text, group=_PANEL)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SlurmFlags:
    """Declares the flags that say where programs run, and what their jobs are to have."""

    on: Annotated[
        Literal["local", "slurm"] | None,
        _flag("Where the nodes run: on this machine, or as jobs of Slurm (extra `slurm`), which go on without this."),
    ] = None
    slurm_partition: Annotated[str | None, _flag("Of the jobs; the cluster's if not given.")] = None
    slurm_time: Annotated[
        int | None,
        _flag(f"Minutes of a job; {DAY} if not given. A swarm whose time is up saves, is queued again and goes on."),
    ] = None
    slurm_cpus: Annotated[int | None, _flag("Processors of a job.")] = None
    slurm_memory: Annotated[str | None, _flag("Of a job, such as 16G.")] = None
    slurm_gpus: Annotated[int | None, _flag("GPUs of a job that loads a model.")] = None
    slurm_account: Annotated[str | None, _flag("That pays.")] = None
    slurm_extra: Annotated[
        str | None, _flag("Other options of sbatch, such as \"qos=high constraint='a100|h100' exclusive\".")
    ] = None
    slurm_folder: Annotated[
        str | None,
        _flag(
            "Of the jobs' scripts and logs: this user's alone, and seen by all machines of the cluster; "
            "~/.local/state/swarm/slurm if not given."
        ),
    ] = None

    @property
    def resources(self) -> Resources:
        """Raises ConfigError: Slurm would not take them."""
        return Resources(
            partition=self.slurm_partition,
            minutes=DAY if self.slurm_time is None else self.slurm_time,
            cpus=self.slurm_cpus,
            memory=self.slurm_memory,
            gpus=self.slurm_gpus,
            account=self.slurm_account,
            extra=self.slurm_extra or "",
        )


def slurm_of(flags: SlurmFlags) -> SlurmBackend | None:
    """Slurm, if that is where programs are to run.

    Raises:
        ConfigError: it cannot be used, or something is asked of jobs, and there are none.
    """
    if flags.on == SLURM:
        return slurm_backend(flags.resources, flags.slurm_folder)
    names = [f.name for f in fields(SlurmFlags) if f.name != "on" and getattr(flags, f.name) is not None]
    if names:
        said = ", ".join(f"--{name.replace('_', '-')}" for name in names)
        raise ConfigError(f"{said} would have no effect: say --on slurm, too, or leave it out")
    return None


def how_to_follow(ids: list[str], again: str) -> str:
    """Returns what to tell who leaves jobs to themselves."""
    many = " ".join(ids)
    if not ids:
        return f"no job is left; go on: {again}"
    look = f"squeue --jobs {','.join(ids)}"
    return f"jobs {many} go on without this. Follow them: {again}\nlook: {look}; cancel: scancel {many}"


def describe_jobs(backend: SlurmBackend, programs: Sequence[tuple[str, str, str]]) -> str:
    """Says which jobs would be submitted, and with what.

    Args:
        programs: place, experiment and part of each.
    """
    lines = []
    for place, experiment, part in programs:
        found = backend.found(place, experiment, part)
        there = f"is in the queue: {found.note()}" if found else backend.resources_of(part).describe()
        lines.append(f"{job_name(place, experiment, part)}  {there}")
    return "\n".join([f"jobs of Slurm, with scripts and logs in {backend.folder}:", *(f"  {line}" for line in lines)])
