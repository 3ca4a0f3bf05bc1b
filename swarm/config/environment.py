"""Settings as environment variables of processes: which variables are ours, and what a child process is given."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from swarm.config.settings import FIELDS

VARIABLES: dict[str, str] = {variable: name for name, f in FIELDS.items() for variable in f.metadata["env"]}
"""Variable -> setting."""
SECRETS = tuple(variable for variable, name in VARIABLES.items() if FIELDS[name].metadata["secret"])
"""Variables that are never shown."""
DAEMONS = {
    "coordinator": ("node", "--role", "coordinator"),
    "worker": ("node", "--role", "worker"),
    "workers": ("workers",),
}
"""The `swarm` command of each kind of daemon."""


def given_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The settings in an environment, secrets left out."""
    return {
        name: value for name, value in environ.items() if name in VARIABLES and name not in SECRETS and value.strip()
    }


def without_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment without any setting in it: what another process gets below its own ones."""
    return {name: value for name, value in environ.items() if name not in VARIABLES}


def command_line(environment: Mapping[str, str], role: str = "worker") -> str:
    """What a person would type to start a daemon with these variables; secrets are left for them to add."""
    shown = [f"{name}={shlex.quote(value)}" for name, value in environment.items() if name not in SECRETS]
    return " ".join([*shown, "swarm", *DAEMONS[role]])
