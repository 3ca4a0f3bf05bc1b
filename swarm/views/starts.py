"""Says what the nodes of an experiment were started with, as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from swarm.config import variable
from swarm.config.settings import FIELDS
from swarm.harmless import printable, quoted
from swarm.views.text import shorten, table
from swarm.wire.messages import NodeStart

LONGEST_VALUE = 60
LONGEST_SOURCE = 48
DEFAULT = "default"
"""Where a value came from that nobody gave."""
MOST_VALUES = 8
"""Different ones of a setting that are shown."""


def settings_table(
    settings: Sequence[Mapping[str, Any]],
    sources: Sequence[Mapping[str, str]],
    ours: str = "",
    *,
    without_defaults: bool = False,
) -> str:
    """Returns variable, value and origin of every setting; where nodes differ, each value once, in their order.

    Args:
        settings: setting -> value as recorded, of each node.
        sources: setting -> where its value came from, of each node.
        ours: origin of a value that is not the default and that nobody is said to have given.
        without_defaults: count those alone that are at their defaults.
    """
    names = [name for name in FIELDS if any(name in one for one in settings)]
    rows = []
    for name in names:
        values = [one[name] for one in settings if name in one]
        given = dict.fromkeys(of_node[name] for of_node in sources if name in of_node)
        source = shorten(" | ".join(given), LONGEST_SOURCE) or _origin(name, values, ours)
        rows.append((variable(name), _values(values), source))
    shown = [row for row in rows if not without_defaults or row[2] != DEFAULT]
    text = table(("variable", "value", "from"), shown, left=(0, 1, 2))
    left = len(rows) - len(shown)
    return f"{text}\n{left} other settings have their defaults: swarm settings" if left else text


def _origin(name: str, values: Iterable[Any], ours: str) -> str:
    default = FIELDS[name].default
    plain = list(default) if isinstance(default, tuple) else default
    return DEFAULT if all(value == plain for value in values) else ours


def _values(values: Iterable[Any]) -> str:
    texts = dict.fromkeys(",".join(map(_text, v)) if isinstance(v, list) else _text(v) for v in values)
    return " | ".join(shorten(text, LONGEST_VALUE) for text in [*texts][:MOST_VALUES])


def render_starts(starts: Sequence[NodeStart]) -> str:
    """Returns the last start of each node: what they share in one table, and what each was made with."""
    if not starts:
        return "no node has a record of its start: they were made by a version that kept none, or never began"
    heads = [_head(start) for start in starts]
    settings, sources = [start.settings for start in starts], [start.sources for start in starts]
    return "\n\n".join([settings_table(settings, sources), *heads])


def _head(start: NodeStart) -> str:
    lines = [
        f"{start.node_id} ({start.role}), {start.rounds_done} rounds behind it",
        f"  command   {start.command or '-'}",
        f"  versions  {_pairs(start.versions)}",
        f"  code      {start.code or '-'}",
        f"  models    {_pairs(start.models)}",
        f"  machine   {_pairs(start.machine)}",
    ]
    return "\n".join(shorten(printable(line), 400) for line in lines)


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_text(value)}" for name, value in values.items()) or "-"


def _text(value: object) -> str:
    return value if isinstance(value, str) else quoted(value)
