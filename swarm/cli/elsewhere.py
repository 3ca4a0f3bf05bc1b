"""`--on slurm` and what a job is to have: flags of `swarm up` and `swarm study run`, and what a plugin makes of them.

flags ─▶ elsewhere_of ─┬ None                                    programs run on this machine
                       └ Elsewhere, by a plugin (`swarm.backends`)    they are jobs that go on without us
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Protocol

from cyclopts import Parameter

from swarm import entry_points
from swarm.cli.help import further
from swarm.errors import ConfigError
from swarm.programs import Backend, Program

if TYPE_CHECKING:
    import signal

    from swarm.cli.supervisor import DaemonChild

_PANEL = further("Slurm", 90)
LOCAL = "local"
DAY = 24 * 60


def _flag(text: str) -> Parameter:
    return Parameter(help=text, group=_PANEL)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ElsewhereFlags:
    """Where programs run, and what their jobs are to have."""

    on: Annotated[
        str | None,
        _flag(
            "Where the nodes run: `local`, on this machine, or `slurm`, as jobs of Slurm (extra `slurm`), which go on "
            "without this."
        ),
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


class SubmittedJob(Program, Protocol):
    @property
    def id(self) -> str:
        """Its name for the cluster."""


class Jobs(Protocol):
    """The daemons of one `swarm up`, each a job; what `Supervisor` is for processes of this machine."""

    failure: DaemonChild | None
    """The daemon whose job ended badly first."""

    def unfound(self, children: Sequence[DaemonChild], names: Sequence[str]) -> list[str]:
        """Returns those of these nodes whose daemon is in no job that waits or runs."""

    async def run(self, child: DaemonChild) -> None:
        """Submit one, unless it is there, and stay with it until it ends for good, or we leave."""

    async def heard(self) -> None:
        """Return after a while: a job says nothing here."""

    def stop(self, number: signal.Signals) -> None:
        """Leave all jobs to themselves."""

    def insist(self) -> None:
        """Do nothing: no more can be left."""

    def left(self) -> list[str]:
        """Returns the ids of the jobs that go on."""

    def how_to_follow(self, again: str) -> str:
        """Returns what to tell who leaves those jobs to themselves; `again` is the command that follows them."""


class Elsewhere(Backend, Protocol):
    """Where programs run that go on without us; what a plugin makes of the flags."""

    @property
    def cores(self) -> int:
        """The processors of a job."""

    def found(self, place: str, experiment: str, part: str = "") -> SubmittedJob | None:
        """Returns a job that was submitted earlier, if it waits or runs."""

    def describe(self, programs: Sequence[tuple[str, str, str]]) -> str:
        """Returns which jobs would be submitted, and with what.

        Args:
            programs: place, experiment and part of each.
        """

    def how_to_follow(self, ids: Sequence[str], again: str) -> str:
        """Returns what to tell who leaves jobs to themselves; `again` is the command that follows them."""

    def jobs(self, place: str, experiment: str, environ: Mapping[str, str]) -> Jobs:
        """Returns the daemons of an experiment."""


def elsewhere_of(job_flags: ElsewhereFlags) -> Elsewhere | None:
    """Returns where programs are to run; None: on this machine.

    Raises:
        ConfigError: nobody knows that place, it cannot be used, or something is asked of jobs, and there are none.
    """
    if job_flags.on not in (None, LOCAL):
        backend: Elsewhere = entry_points.needed(entry_points.BACKENDS, job_flags.on, f"--on {job_flags.on}")(job_flags)
        return backend
    names = [f.name for f in fields(ElsewhereFlags) if f.name != "on" and getattr(job_flags, f.name) is not None]
    if names:
        said = ", ".join(f"--{name.replace('_', '-')}" for name in names)
        raise ConfigError(f"{said} would have no effect: say --on slurm, too, or leave it out")
    return None


def part_of(node_id: str) -> str:
    """Returns the part of a job's name: that of a node, or of the workers of one process."""
    return node_id.replace("-*", "s")
