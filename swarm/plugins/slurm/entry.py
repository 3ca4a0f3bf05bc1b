"""Makes a backend of the flags of `--on slurm`."""

from __future__ import annotations

from swarm.cli.elsewhere import DAY, ElsewhereFlags
from swarm.plugins.slurm.backend import SlurmBackend, slurm_backend
from swarm.plugins.slurm.resources import Resources


def backend_of(flags: ElsewhereFlags) -> SlurmBackend:
    """Returns where jobs go. Raises ConfigError: Slurm is not there, or would not take what is asked of jobs."""
    return slurm_backend(
        Resources(
            partition=flags.slurm_partition,
            minutes=DAY if flags.slurm_time is None else flags.slurm_time,
            cpus=flags.slurm_cpus,
            memory=flags.slurm_memory,
            gpus=flags.slurm_gpus,
            account=flags.slurm_account,
            extra=flags.slurm_extra or "",
        ),
        flags.slurm_folder,
    )
