"""Names the programs that `swarm up` starts beside its nodes for SWARM_PUSH_REPO."""

from __future__ import annotations

from collections.abc import Sequence

from swarm.cli.beside import ProgramBeside, where
from swarm.config import Settings, variable
from swarm.errors import ConfigError
from swarm.plugins.hub.hub_push import repo_problem


def programs(settings: Settings, names: Sequence[str]) -> list[ProgramBeside]:
    """Returns a program for each worker. Raises ConfigError: the Hub would take no repository of that name."""
    return [_program(settings, name, len(names)) for name in names]


def _program(settings: Settings, node: str, of: int) -> ProgramBeside:
    repo = str(settings.push_repo) if of == 1 else f"{settings.push_repo}-{node}"
    if problem := repo_problem(repo):
        raise ConfigError(f"{variable('push_repo')}: {problem}")
    every = ["--every", str(settings.push_every)] if settings.push_every else []
    words = ("model", "push", node, "--repo", repo, "--follow", *every, *where(settings))
    token = {variable("hub_token"): settings.hub_token} if settings.hub_token else {}
    return ProgramBeside(f"push of {node}", words, token)
