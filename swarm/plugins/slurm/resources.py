"""What a job is to have: partition, time, processors, memory, GPUs. Pure: flags in, parameters of sbatch out."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Any

from swarm.cli.elsewhere import DAY
from swarm.errors import ConfigError

SIGNAL_SECONDS = 90
"""Before its time is up a job is told, to save and to be queued again."""
_MEMORY = re.compile(r"[1-9][0-9]*[KMGT]?")


@dataclass(frozen=True)
class Resources:
    """Of one job; what is None is left to the cluster."""

    partition: str | None = None
    minutes: int = DAY
    cpus: int | None = None
    memory: str | None = None
    """As Slurm writes it, such as `16G`."""
    gpus: int | None = None
    account: str | None = None
    extra: str = ""
    """Other options of sbatch, such as `qos=high constraint='a100|h100' exclusive`."""

    def __post_init__(self) -> None:
        """Raises ConfigError: one of them is none that Slurm would take."""
        for name, value, least in (("time", self.minutes, 1), ("cpus", self.cpus, 1), ("gpus", self.gpus, 0)):
            if value is not None and value < least:
                raise ConfigError(f"--slurm-{name} must be at least {least}, got {value}")
        if self.memory is not None and not _MEMORY.fullmatch(self.memory):
            raise ConfigError(f"--slurm-memory must be a number with K, M, G or T, such as 16G, got {self.memory!r}")
        parsed(self.extra)

    def light(self) -> Resources:
        """Of a program that only reads and writes files, such as a coordinator."""
        return Resources(self.partition, self.minutes, 1, None, None, self.account, self.extra)

    def parameters(self) -> dict[str, Any]:
        """As submitit names them."""
        own = {
            "partition": self.partition,
            "time": self.minutes,
            "cpus_per_task": self.cpus,
            "mem": self.memory,
            "gpus_per_node": self.gpus or None,
            "account": self.account,
            "srun_args": [f"--cpus-per-task={self.cpus}"] if self.cpus else None,  # srun does not take it from sbatch
        }
        return {name: value for name, value in own.items() if value is not None} | {
            "nodes": 1,
            "ntasks_per_node": 1,
            "signal_delay_s": SIGNAL_SECONDS,
            "stderr_to_stdout": True,
            "additional_parameters": {"requeue": True} | parsed(self.extra),
        }

    def describe(self) -> str:
        """For people."""
        own = (("partition", self.partition), ("time", f"{self.minutes} min"), ("cpus", self.cpus))
        more = (("memory", self.memory), ("gpus", self.gpus), ("account", self.account), ("extra", self.extra))
        return ", ".join(f"{name} {value}" for name, value in (*own, *more) if value)


def parsed(extra: str) -> dict[str, str | bool]:
    """Options of sbatch, by name; True for those that have no value.

    Raises:
        ConfigError: quotes do not match, or something is no option.
    """
    try:
        words = shlex.split(extra)
    except ValueError as error:
        raise ConfigError(f'--slurm-extra {extra!r}: {error}; expected such as "qos=high exclusive"') from None
    found: dict[str, str | bool] = {}
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        if not re.fullmatch(r"[a-z][a-z0-9-]*", name) or "\n" in value:
            raise ConfigError(f"--slurm-extra: {word!r} is no option of sbatch; expected such as qos=high or exclusive")
        found[name] = value if equals else True
    return found
