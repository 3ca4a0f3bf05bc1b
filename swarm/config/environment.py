"""Settings as environment variables of processes: which variables are ours, and what a child process is given.

A name that nobody knows may be meant for one of the owner's. SWARM_ names are ours alone, so any unknown one is refused
(swarm.config.sources). MODEL_NAME and its kin stand among the variables of everything else on a machine (NODE_VERSION,
NODE_IP, MODEL_PATH, HUGGINGFACE_TOKEN), so only what hardly another program's would be called is taken for a slip: a
long name, or one with the same first word, that is much alike. Secrets are left out: the names of tokens are much
alike, and each belongs to some tool.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import msgspec

from swarm import forms
from swarm.config.constraints import PREFIX
from swarm.config.names import PRESET, PRESET_VARIABLE
from swarm.config.plugin_settings import KnownVariables
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


OURS = ("ADAPTIVE", "COORDINATOR", "ROLLOUT")
"""First words that hardly any other program's variables have."""
ALIKE, ALIKE_OF_OURS = 0.9, 0.8
"""Ratio of difflib from which on a name is taken for a slip, and that of names with a first word of OURS."""
LONG, SHORTEST = 16, 10
"""Characters: a known name as long as the first may be misspelled in its first word, too; of one shorter than the
second no slip is known, for NODE_IP is no NODE_ID."""
_OWNERS = {name: f.metadata["secret"] for f in FIELDS.core.values() for name in f.metadata["env"] if name[:6] != PREFIX}
"""Variable -> whether it is a secret."""


def meant(name: str) -> str | None:
    """Returns the variable that was meant by a name that is none; None: it is somebody else's."""
    if name.startswith(PREFIX) or name in _OWNERS or name in RETIRED:
        return None
    first = name.partition("_")[0]
    near = [
        known
        for known, is_secret in _OWNERS.items()
        if known[:3] == name[:3] and not is_secret
        if len(known) >= LONG or (len(known) >= SHORTEST and known.partition("_")[0] == first)
    ]
    if not near:
        return None
    import difflib  # here: nothing is misspelled as a rule

    return next(iter(difflib.get_close_matches(name, near, 1, ALIKE_OF_OURS if first in OURS else ALIKE)), None)
