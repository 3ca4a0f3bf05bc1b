"""Settings as environment variables of processes: which variables are ours, and what a child process is given."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import msgspec

from swarm import forms
from swarm.config.plugin_settings import KnownVariables
from swarm.config.presets import PRESET, PRESET_VARIABLE
from swarm.config.settings import FIELDS, Settings, variable

VARIABLES = KnownVariables(
    FIELDS, {PRESET_VARIABLE: PRESET} | {table.variable: name for name, table in FIELDS.tables.by_name.items()}
)
"""Variable -> setting, or the preset."""
RETIRED = {
    "ADAPTIVE_IJ": "say ADAPTIVE_IJ_ENABLED",
    "ADAPTIVE_RATE": "say ADAPTIVE_IJ_ALPHA",
    "SUBMIT_PERIOD_HOURS": "leave it out: rewards are submitted with every round",
    "LOG_FLUSH_INTERVAL": "leave it out: every line of a log is in the folder as soon as it is written",
}
"""Variables of the rl-swarm fork that have no meaning here -> what to do instead.

They are refused, as an unknown SWARM_ variable is: who sets one expects something of the run, and a warning in the log
of a run of many hours is read too late.
"""
ASKED_VARIABLE = "SWARM_STARTED_BY"
"""Holds what started a daemon, as JSON; `swarm up` sets it, and nobody else needs to."""


class StartRequest(msgspec.Struct, frozen=True):
    """Records what a process was asked for by its user, for the record of its start."""

    command: str = ""
    """What was typed, secrets left out."""
    sources: dict[str, str] = {}
    """Setting -> where its value came from, of those that are not at their defaults."""


NOBODY = StartRequest()
"""Nothing is known of who asked for what."""


def asked_in(environ: Mapping[str, str]) -> StartRequest | None:
    """Returns what the command that started this process was asked for; None where a user started it."""
    try:
        return forms.decode(environ.get(ASKED_VARIABLE, ""), StartRequest)
    except msgspec.MsgspecError:
        return None


def as_variable(asked: StartRequest) -> dict[str, str]:
    """Returns the variable that tells a child process."""
    return {ASKED_VARIABLE: msgspec.json.encode(asked).decode()}


def is_secret(name: str) -> bool:
    """Tells whether the value of a setting is never shown, whoever declares it; nothing unknown is."""
    return name in FIELDS and FIELDS[name].metadata["secret"]


def secrets() -> frozenset[str]:
    """Returns the variables that are never shown."""
    return frozenset(variable for name, f in FIELDS.items() if is_secret(name) for variable in f.metadata["env"])


def with_secrets(environ: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """Returns the environment of another process with the secrets of these settings, wherever they were said."""
    found = {name: settings.value(name) for name in FIELDS if is_secret(name)}
    return {**environ, **{variable(name): value for name, value in found.items() if value is not None}}


DAEMONS = {
    "coordinator": ("node", "--role", "coordinator"),
    "worker": ("node", "--role", "worker"),
    "generator": ("node", "--role", "generator"),
    "evaluator": ("node", "--role", "evaluator"),
    "person": ("answer",),
    "workers": ("node",),
    "mirror": ("copy",),
}
"""The `swarm` command of each kind of daemon."""


def given_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings in an environment, secrets left out."""
    hidden = {*secrets(), ASKED_VARIABLE}
    return {
        name: value for name, value in environ.items() if name not in hidden and name in VARIABLES and value.strip()
    }


def without_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns an environment without any setting in it: what another process gets below its own ones."""
    return {name: value for name, value in environ.items() if name != ASKED_VARIABLE and name not in VARIABLES}


def command_line(environment: Mapping[str, str], role: str = "worker") -> str:
    """Returns what a person would type to start a daemon with these variables; secrets are left for them to add."""
    hidden = {*secrets(), ASKED_VARIABLE}
    shown = [f"{name}={shlex.quote(value)}" for name, value in environment.items() if name not in hidden]
    return " ".join([*shown, "swarm", *DAEMONS[role]])
