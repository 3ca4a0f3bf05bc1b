"""The part of a model card that says how the model was made: the command, the settings, what it was computed with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from swarm.config import variable
from swarm.config.constraints import as_text
from swarm.config.settings import FIELDS
from swarm.harmless import printable, quoted
from swarm.records.starts import WHERE
from swarm.views.markdown import MOST_NAMED, shown, table
from swarm.wire.messages import NodeStart

LONGEST_VALUE, LONGEST_COMMAND = 400, 4000
ALWAYS = (
    "model",
    "tasks",
    "profile",
    "local_groups",
    "external_groups",
    "generations",
    "max_rounds",
    "learning_rate",
    "loss",
    "sampler",
    "adapter",
    "seed",
)
"""Settings that a card names whether they are at their defaults or not."""


def how_it_was_made(start: NodeStart | None, redact: Callable[[str], str]) -> list[str]:
    """Returns the lines of the section; none where there is no record of a start.

    Args:
        redact: takes paths, addresses and secrets out of a text.
    """
    if start is None:
        return []
    settings = [
        (f"`{variable(name)}`", shown(redact(value), LONGEST_VALUE)) for name, value in _settings(start.settings)
    ]
    versions = sorted(start.versions.items())[:MOST_NAMED]
    return [
        "## How it was made",
        "",
        *_again(redact(printable(start.command)[:LONGEST_COMMAND])),
        *table(("setting", "value"), settings),
        *table(("library", "version"), [(shown(name), shown(redact(version))) for name, version in versions]),
    ]


def _again(command: str) -> list[str]:
    """Returns the command as a block by indentation, which no mark in it can end."""
    if not command.strip():
        return []
    text = [
        "The command that made the run; `<...>` stands for what is of one machine. The seed gives the same questions",
        "again, and where the run is still there `swarm up --from` repeats it.",
    ]
    return [*text, "", f"    {command}", ""]


def _settings(recorded: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns setting -> value in words: those of ALWAYS, and those not at their defaults; no unknown names."""
    known = [name for name in FIELDS if name in recorded and name not in WHERE and not FIELDS[name].metadata["secret"]]
    told = [name for name in known if name in ALWAYS or recorded[name] != _as_recorded(FIELDS[name].default)]
    return [(name, _value(recorded[name])) for name in told if recorded[name] is not None]


def _as_recorded(default: Any) -> Any:
    return list(default) if isinstance(default, tuple) else default


def _value(value: Any) -> str:
    try:
        return as_text(value)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return quoted(value)
