"""`swarm settings`: every setting, its value, and where the value came from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import Field, fields
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from swarm.cli.flags import NodeFlags, as_settings, settings_from
from swarm.cli.say import print_result
from swarm.config import Settings, sources_of
from swarm.config.meanings import meanings
from swarm.views.text import shorten, table


class SettingRow(msgspec.Struct, frozen=True):
    """One setting as listed."""

    variable: str
    """All names of the environment variable."""
    setting: str
    default: Any
    value: Any
    source: str
    meaning: str


def settings(*, flags: NodeFlags | None = None, as_json: Annotated[bool, Parameter("--json")] = False) -> None:
    """List every setting, its value and where it came from.

    Args:
        flags: what a run would be started with.
        as_json: JSON instead of a table.
    """
    rows = list_settings(flags or NodeFlags(), os.environ)
    print_result(rows, render, as_json=as_json)


def list_settings(flags: NodeFlags, environ: Mapping[str, str]) -> list[SettingRow]:
    """All settings in the order of their definition. Raises ConfigError as a run with them would."""
    effective, explained = settings_from(flags, environ), meanings(Settings)
    sources = sources_of(as_settings(flags), environ, flags.config)
    return [
        SettingRow(
            variable=", ".join(f.metadata["env"]),
            setting=f.name,
            default=f.default,
            value=_shown(f, getattr(effective, f.name)),
            source=sources.get(f.name, "default"),
            meaning=explained[f.name],
        )
        for f in fields(Settings)
    ]


def render(rows: list[SettingRow]) -> str:
    """A table, and below it what the settings mean."""
    cells = [(row.variable, _text(row.value), _text(row.default), shorten(row.source, 40)) for row in rows]
    explained = [f"{row.variable}: {row.meaning}" for row in rows]
    return "\n".join([table(("variable", "value", "default", "from"), cells, left=(0, 1, 2, 3)), "", *explained])


def _shown(f: Field[Any], value: Any) -> Any:
    return "(set, not shown)" if f.metadata["secret"] and value is not None else value


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
