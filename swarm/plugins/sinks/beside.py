"""Names the programs that `swarm up` starts beside its nodes for SWARM_SINKS."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from swarm.cli.supervisor import ProgramBeside, where
from swarm.config import Settings, variable
from swarm.plugins.sinks.opening import refuse_kinds
from swarm.plugins.sinks.settings import SinksSettings


def programs(settings: Settings, _: Sequence[str]) -> list[ProgramBeside]:
    """Returns a program for each kind of sink. Raises ConfigError: a kind is none, or its library is not installed."""
    kinds = settings.of(SinksSettings).sinks or ()
    refuse_kinds(kinds, variable("sinks"))
    return [_program(settings, kind) for kind in dict.fromkeys(kinds)]


def _program(settings: Settings, kind: str) -> ProgramBeside:
    folder = str(Path(settings.of(SinksSettings).sink_folder).expanduser().absolute())
    return ProgramBeside(f"sink {kind}", ("sink", "run", kind, "--folder", folder, *where(settings)), {})
