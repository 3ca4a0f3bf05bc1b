"""Refuses some settings that were read in a shared place, where anybody may have written them."""

from __future__ import annotations

from typing import Any

from swarm.config.settings import FIELDS, both_names, refuse_strangers_code, to_type, variable
from swarm.config.sources import Given, parse
from swarm.config.task_table import foreign_files
from swarm.errors import ConfigError
from swarm.harmless import quoted

MOST = {"local_groups": 64, "external_groups": 256, "generations": 64, "max_rounds": 1_000_000, "max_stages": 16}
"""The largest values that are taken of what an experiment may say; who wants more says so."""


def refuse_unsafe(found: Given) -> None:
    """See that no setting of a shared place is beyond what is taken from one, names code or files of its reader's, or
    reaches out of the place.

    Values are looked at as they will be used: `"1000000"` is a number as well.

    Raises:
        ConfigError: one is or does, or is no value of its setting at all.
    """
    values = {name: (parse(name, value, source), source) for name, (value, source) in found.items()}
    _refuse_too_much(values)
    for name, (value, source) in values.items():
        refuse_strangers_word(name, value, source)
    _refuse_foreign_files(values)


def refuse_strangers_word(name: str, value: Any, source: str) -> None:
    """See that a value of a place selects nothing but what we ship, and reaches nothing outside of that place.

    Raises:
        ConfigError: it does; says what its user would type.
    """
    refuse_strangers_code(name, value, source)
    if value == FIELDS[name].default:
        return
    if FIELDS[name].metadata["reaches"]:
        raise ConfigError(
            f"{both_names(name)} = {quoted(value)} from {source} reaches out of the shared place. A node "
            f"takes such settings from you alone. If you want it, type {to_type(name, value)}"
        )
    if (one := FIELDS.declaration_of(name)) and not one.is_ours:
        raise ConfigError(
            f"{both_names(name)} = {quoted(value)} from {source} needs the plugin {one.plugin} of "
            f"{one.entry.distribution}. A place cannot turn on code that you did not name. If you want it, type "
            f"{to_type(name, value)}"
        )


def _refuse_too_much(found: Given) -> None:
    for name, most in MOST.items():
        value, source = found.get(name, (most, ""))
        if isinstance(value, int | float) and value > most:
            raise ConfigError(
                f"{both_names(name)} = {value} from {source} is more than the {most} that a node takes from a folder "
                f"that anybody may write to: if it is meant, say {variable(name)}={value} yourself"
            )


def _refuse_foreign_files(found: Given) -> None:
    """Refuses files that are none of the run's: whoever can write in the place could choose them."""
    value, source = found.get("task_table", (None, ""))
    if isinstance(value, dict) and (named := next(iter(foreign_files(value)), None)):
        raise ConfigError(
            f"{variable('task_table')} (task_table) from {source} asks from the dataset {quoted(named)}: expected the "
            "name of a file, no path and no dataset of the hub, and its SHA-256, 64 hexadecimal digits in lower case; "
            "whoever began the run has to begin it anew, or say the task in settings of your own"
        )
