"""Tells people what a setting is, taken from its declaration: help of flags, `swarm settings`, docs/settings.md."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from dataclasses import dataclass, is_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from swarm.config.constraints import Text, allowed, as_text, choices, options
from swarm.config.settings import FIELDS, Settings, flag_of
from swarm.config.tables import SettingSection

COMMON = ("path", "experiment")
"""Settings with a flag of their own name, which every command has that has an experiment."""


@dataclass(frozen=True)
class Declared:
    name: str
    """In records, and in a settings file; of a table's key its flat name."""
    section: str
    variables: tuple[str, ...]
    flag: str
    """Such as `--rounds`; empty: it has none."""
    default: Any
    allowed: str
    """In words; empty where any text will do."""
    choices: tuple[str, ...]
    meaning: str
    table: str = ""
    """The table whose key it is; empty: it is none."""
    shown: str = ""
    """Its name as messages have it, `limits.max_peers` of a key."""
    dotted: str = ""
    """Its name in a settings file where all keys of its table are said."""

    def help(self, default: Any = None) -> str:
        """Returns the help of its flag.

        Args:
            default: the command's own, where it has one.
        """
        shown = as_text(self.default if default is None else default)
        notes = [f"allowed: {self.allowed}"] if self.allowed else []
        notes += [f"default: {shown}", f"variable: {', '.join(self.variables)}"]
        return " ".join([self.meaning, *(f"[{note}]" for note in notes)])


def _declared(name: str, meaning: str) -> Declared:
    f, plugin = FIELDS[name], FIELDS.declaration_of(name)
    flag = flag_of(name) or (f"--{name}" if name in COMMON else "")
    table, key = FIELDS.tables.by_flat_name.get(name, ("", name))
    any_text = f.type in (Text, Text | None) or options(f.type) == [bool]
    return Declared(
        name=name,
        section=plugin.declared.section if plugin else _section_of(table or name),
        variables=f.metadata["env"],
        flag=flag,
        default=f.default,
        allowed="" if any_text else allowed(f.type),
        choices=choices(f.type),
        meaning=meaning,
        table=table,
        shown=FIELDS.tables.shown(name),
        dotted=f"{table}.{key}" if table else name,
    )


def _section_of(name: str) -> str:
    declaring = (cls for cls in Settings.__mro__ if issubclass(cls, SettingSection) and name in cls.__annotations__)
    return next(cls.section for cls in declaring)


def meanings(cls: type) -> dict[str, str]:
    """Field -> its docstring on one line; fields without one are left out. Of a dataclass those inherited, too."""
    declared = [base for base in reversed(cls.__mro__) if base is cls or is_dataclass(base)]
    return {name: text for base in declared for name, text in _meanings(base).items()}


def _meanings(cls: type) -> dict[str, str]:
    body = _classes_of(cls.__module__)[cls.__name__]
    return {
        node.target.id: " ".join(after.value.value.split())
        for node, after in pairwise(body)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str)
    }


@cache
def _classes_of(module: str) -> dict[str, list[ast.stmt]]:
    """Class of a module -> its statements. Parsing is a tenth of a command's start: each file is parsed once."""
    source = Path(str(sys.modules[module].__file__)).read_text("utf-8")
    return {node.name: node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}


def declared() -> dict[str, Declared]:
    """Returns setting -> what people are told of it, of all that are known: of anybody's plugins once they were looked
    for (FIELDS.look_further)."""
    known = set(FIELDS)
    meant = dict[str, str]()
    for name, text in meanings(Settings).items():
        table = FIELDS.tables.by_name.get(name)
        of_keys = meanings(table.form) if table else {}
        meant |= {flat: of_keys[key] for key, flat in table.flat_names.items()} if table else {name: text}
    for cls in dict.fromkeys(one.declared for one in FIELDS.declarations):
        meant |= meanings(cls)
    return {name: _declared(name, text) for name, text in meant.items() if name in known}


def sections(known: Iterable[Declared]) -> dict[str, list[str]]:
    """Returns section -> its settings, in the order in which they are declared: keys in the place of their table,
    settings of plugins at the end."""
    found: dict[str, list[str]] = {}
    for one in known:
        found.setdefault(one.section, []).append(one.name)
    return found


TABLES = {name: text for name, text in meanings(Settings).items() if name in FIELDS.tables.by_name}
"""Table -> what it means."""
DECLARED = declared()
"""Setting -> what people are told of it, of the core's and those of our plugins."""


def allowed_of_table(name: str) -> str:
    """Returns in words what may be said of a table."""
    main = f"{DECLARED[name].allowed or 'a text'}, or " if name in DECLARED else ""
    return f"{main}a table: {', '.join(FIELDS.tables.by_name[name].keys)}"
