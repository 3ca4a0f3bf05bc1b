"""Makes a backend of the flags of `--on slurm`."""

from __future__ import annotations

from swarm.cli.elsewhere import DAY, ElsewhereFlags
from swarm.plugins.slurm.backend import SlurmBackend, slurm_backend
from swarm.plugins.slurm.resources import Resources


def backend_of(job_flags: ElsewhereFlags) -> SlurmBackend:
    """Returns where jobs go. Raises ConfigError: Slurm is not there, or would not take what is asked of jobs."""
    return slurm_backend(
        Resources(
            partition=job_flags.slurm_partition,
            minutes=DAY if job_flags.slurm_time is None else job_flags.slurm_time,
            cpus=job_flags.slurm_cpus,
            memory=job_flags.slurm_memory,
            gpus=job_flags.slurm_gpus,
            account=job_flags.slurm_account,
            extra=job_flags.slurm_extra or "",
        ),
        job_flags.slurm_folder,
    )
