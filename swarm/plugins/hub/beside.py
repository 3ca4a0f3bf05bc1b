"""Names the programs that `swarm up` starts beside its nodes for SWARM_PUSH_REPO."""

from __future__ import annotations

from collections.abc import Sequence

from swarm.cli.supervisor import ProgramBeside, where
from swarm.config import Settings, variable
from swarm.errors import ConfigError
from swarm.plugins.hub.hub_push import repo_problem
from swarm.plugins.hub.settings import HubSettings


def programs(settings: Settings, names: Sequence[str]) -> list[ProgramBeside]:
    """Returns a program for each worker, where models are to be pushed.

    Raises:
        ConfigError: the Hub would take no repository of that name.
    """
    repo = settings.of(HubSettings).push_repo
    return [_program(settings, name, repo if len(names) == 1 else f"{repo}-{name}") for name in names] if repo else []


def _program(settings: Settings, node: str, repo: str) -> ProgramBeside:
    if problem := repo_problem(repo):
        raise ConfigError(f"{variable('push_repo')}: {problem}")
    push_every = settings.of(HubSettings).push_every
    every = ["--every", str(push_every)] if push_every else []
    words = ("model", "push", node, "--repo", repo, "--follow", *every, *where(settings))
    token = {variable("hub_token"): settings.hub_token} if settings.hub_token else {}
    return ProgramBeside(f"push of {node}", words, token)
