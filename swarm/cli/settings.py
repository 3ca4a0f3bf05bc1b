"""`swarm settings`: every setting, its value, and where the value came from."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any

from cyclopts import Parameter

from swarm.cli.before_start import suited
from swarm.cli.flags import as_settings, settings_from
from swarm.cli.run_flags import NodeFlags
from swarm.cli.say import print_result, warn
from swarm.config import sources_of
from swarm.config.constraints import as_text
from swarm.config.declared import TABLES, Declared, allowed_of_table, declared, sections
from swarm.config.settings import FIELDS
from swarm.errors import ConfigError
from swarm.spelling import did_you_mean, named
from swarm.views.text import shorten, table

_WIDEST_VALUE = 32
_WIDEST_SOURCE = 40
_WIDEST_ALLOWED = 60
_FOOTER = (
    "name: in a settings file (--config FILE) of lines `name = value`. `swarm settings NAME ...` says what one means."
)


@dataclass(frozen=True, kw_only=True)
class SettingRow(Declared):
    value: Any
    source: str


def settings(
    *names: str,
    node_flags: NodeFlags | None = None,
    as_json: Annotated[bool, Parameter("--json")] = False,
) -> None:
    """Show every setting, its value and where it came from.

    Args:
        names: Only these, with what they mean: setting, variable or flag.
        node_flags: what a run would be started with.
        as_json: JSON instead of a table.
    """
    FIELDS.look_further()
    for problem in FIELDS.problems:
        warn(problem)
    chosen = [setting for name in names for setting in _named(name)]
    rows = list_settings(node_flags or NodeFlags(), os.environ, chosen)
    print_result(rows, render_each if chosen else render, as_json=as_json)


def _named(word: str) -> list[str]:
    """Returns the setting that somebody means, of a table all its keys. Raises ConfigError: there is none of that
    name."""
    bare = word.lstrip("-").lower().replace("-", "_")
    known = declared()
    for name, of_keys in FIELDS.tables.by_name.items():
        if bare in (name, of_keys.variable.lower()):
            return [*of_keys.flat_names.values()]
    for name, one in known.items():
        if bare in (name, one.dotted, one.flag.lstrip("-").replace("-", "_"), *map(str.lower, one.variables)):
            return [name]
    near = [name for name, one in known.items() if any(bare in text for text in (name, *one.variables))]
    hint = f"; did you mean {named(near)}?" if near else did_you_mean(bare, known, "; `swarm settings` lists all")
    raise ConfigError(f"expected a setting, its variable or its flag, got {word!r}{hint}")


def list_settings(node_flags: NodeFlags, environ: Mapping[str, str], only: Collection[str] = ()) -> list[SettingRow]:
    """Returns all settings, or some, section by section. Raises ConfigError as a run with them would."""
    base = suited(node_flags, environ, tells=False)
    effective = settings_from(node_flags, environ, base=base)
    sources = sources_of(as_settings(node_flags), environ, node_flags.config, base=base)
    known = declared()
    return [
        _row(known[name], effective.value(name), sources.get(name, "default"))
        for names in sections(known.values()).values()
        for name in names
        if name in only or not only
    ]


def _row(one: Declared, value: Any, source: str) -> SettingRow:
    hidden = FIELDS[one.name].metadata["secret"] and value is not None
    return SettingRow(**vars(one), value="(set, not shown)" if hidden else value, source=source)


def render(rows: Sequence[SettingRow]) -> str:
    """Returns a table for each section, of columns that are alike in all of them, as wide as the terminal at most.

    A setting that is a table has one line, which shows those of its keys that are not at their defaults.
    """
    head = ("  name", "value", "from", "variable", "flag", "allowed")
    ours = [[*members] for _, members in groupby(rows, key=lambda row: row.table or row.name)]
    cells = table(head, [_cells(of_one) for of_one in ours], left=range(len(head))).split("\n")
    lines, rest = [_cut(cells[0])], iter(cells[1:])
    for section, members in groupby(ours, key=lambda of_one: of_one[0].section):
        lines += ["", section, *(_cut(next(rest)) for _ in members)]
    return "\n".join([*lines, "", _FOOTER])


def _cells(rows: Sequence[SettingRow]) -> tuple[str, ...]:
    """Returns the cells of a setting, or of a table's keys."""
    row = rows[0] if len(rows) == 1 else _as_one(rows)
    value, source = shorten(as_text(row.value), _WIDEST_VALUE), shorten(row.source, _WIDEST_SOURCE)
    allowed = shorten(row.allowed, _WIDEST_ALLOWED)
    return (f"  {row.name}", value, source, ", ".join(row.variables), row.flag, allowed)


def _as_one(keys: Sequence[SettingRow]) -> SettingRow:
    declared_table = FIELDS.tables.by_name[keys[0].table]
    said = {row.name: row for row in keys if row.value != row.default}
    main = next((row for row in keys if row.name == row.table), None)
    values = {key: said[flat].value for key, flat in declared_table.flat_names.items() if flat in said}
    return SettingRow(
        name=declared_table.name,
        section=keys[0].section,
        variables=(declared_table.variable,),
        flag=main.flag if main else "",
        default=None,
        allowed=allowed_of_table(declared_table.name),
        choices=(),
        meaning=TABLES[declared_table.name],
        value=main.value if main and {*said} <= {main.name} else values or "defaults",
        source=", ".join(dict.fromkeys(row.source for row in said.values())) or "default",
    )


def _cut(line: str) -> str:
    return shorten(line, shutil.get_terminal_size().columns).rstrip() if sys.stdout.isatty() else line


def render_each(rows: Sequence[SettingRow]) -> str:
    return "\n\n".join(map(_described, rows))


def _described(row: SettingRow) -> str:
    lines = {
        "value": f"{as_text(row.value)} (from: {row.source})",
        "default": as_text(row.default),
        "allowed": row.allowed,
        "variable": ", ".join(row.variables),
        "flag": row.flag,
        "section": row.section,
    }
    return "\n".join([row.shown, f"  {row.meaning}", *(f"  {k:<10}{v}" for k, v in lines.items() if v)])
