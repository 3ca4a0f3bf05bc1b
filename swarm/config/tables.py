"""Settings that are tables: values that mean something together, declared once, said at once or key by key.

    SWARM_LIMITS={"max_peers": 64}     [limits]                   SWARM_MAX_PEERS=64, max_peers = 64:
                                       max_peers = 64             a key's own variable, and its flat name
              │                             │                             │
              └───────── spread ────────────┴─────────────────────────────┘
                            ▼
    max_peers ─▶ its value, and where it came from     records, identities and children's variables have flat names
                            ▼
    settings.limits.max_peers                          typed and frozen

A table is a class of keys, and a field of Settings:

    @dataclass(frozen=True, kw_only=True)
    class LimitsTable(SettingTable):
        max_peers: Annotated[int, whole(1)] = setting(256, "SWARM_MAX_PEERS")
        '''What it means.'''

    limits: LimitsTable = setting(LimitsTable(), "SWARM_LIMITS")

A key's flat name is its variable in small letters, without the prefix. The key whose flat name is the table's own is
its main one: a value that is no table is its value (`SWARM_ADAPTER=lora`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple

from swarm.config.constraints import A_TABLE, PREFIX
from swarm.errors import ConfigError
from swarm.harmless import quoted
from swarm.spelling import did_you_mean


@dataclass(frozen=True, kw_only=True)
class SettingTable:
    """Holds the values of one table. Each field is made by `setting` and has a docstring."""


@dataclass(frozen=True, kw_only=True)
class SettingSection:
    """Declares settings that people are shown together. Each field is made by `setting` and has a docstring."""

    section: ClassVar[str]
    """Its title."""


class DeclaredTable(NamedTuple):
    name: str
    variable: str
    form: type[SettingTable]
    keys: Mapping[str, Field[Any]]
    """Key -> field."""

    @property
    def flat_names(self) -> Mapping[str, str]:
        """Returns key -> the name under which records and children's variables have it."""
        return {key: f.metadata["env"][0].removeprefix(PREFIX).lower() for key, f in self.keys.items()}

    @property
    def has_main(self) -> bool:
        """Tells whether a value that is no table is the value of one of its keys."""
        return self.name in self.flat_names.values()

    def spread(self, value: object, source: str) -> dict[str, object]:
        """Returns flat name -> value, of what somebody says for the table.

        Raises:
            ConfigError: it is no table, or has a key that there is not.
        """
        said = self._parsed(value, source) if isinstance(value, str) else value
        if not isinstance(said, Mapping):
            if not self.has_main:
                raise self._no_table(value, source)
            return {self.name: said}
        flat = self.flat_names
        for key in said:
            if key not in flat:
                meant = did_you_mean(str(key), flat, f"; expected some of {', '.join(flat)}")
                raise ConfigError(
                    f"{self.variable} ({self.name}) has no key {quoted(key)}, got it from {source}{meant}"
                )
        return {flat[key]: part for key, part in said.items()}

    def _parsed(self, text: str, source: str) -> object:
        if not text.lstrip().startswith("{"):
            return text
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise self._no_table(text, source) from None

    def _no_table(self, value: object, source: str) -> ConfigError:
        return ConfigError(
            f"{self.variable} ({self.name}) must be {A_TABLE}, of {', '.join(self.keys)}, got {quoted(value)} from "
            f"{source}; correct it or leave it out"
        )


class KnownTables(NamedTuple):
    by_name: Mapping[str, DeclaredTable]
    by_flat_name: Mapping[str, tuple[str, str]]
    """Flat name -> table and key."""

    def flat_fields(self, all_fields: Iterable[Field[Any]]) -> dict[str, Field[Any]]:
        """Returns setting -> field, keys by their flat names in the place of tables."""
        found: dict[str, Field[Any]] = {}
        for f in all_fields:
            if table := self.by_name.get(f.name):
                found |= {table.flat_names[key]: part for key, part in table.keys.items()}
            elif f.metadata:
                found[f.name] = f
        return found

    def value(self, settings: Any, name: str) -> Any:
        """Returns the value of a setting or a key, by its flat name."""
        if name not in self.by_flat_name:
            return getattr(settings, name)
        table, key = self.by_flat_name[name]
        return getattr(getattr(settings, table), key)

    def nested(self, settings: Any, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns field -> value, with the values of keys, by their flat names, put into the tables of some
        settings."""
        found: dict[str, Any] = {}
        for name, value in values.items():
            if name in self.by_flat_name:
                table, key = self.by_flat_name[name]
                found[table] = replace(found.get(table, getattr(settings, table)), **{key: value})
            else:
                found[name] = value
        return found

    def shown(self, name: str) -> str:
        """Returns a setting's name as messages have it: `limits.max_peers`; a main key's is its table's."""
        table, key = self.by_flat_name.get(name, (name, ""))
        return name if name == table else f"{table}.{key}"


def tables_of(declaration: type) -> KnownTables:
    """Returns the tables among the fields of a class of settings.

    Raises:
        ValueError: a key is secret, while tables are printed and recorded whole.
    """
    found = {
        f.name: DeclaredTable(f.name, f.metadata["env"][0], f.type, {part.name: part for part in fields(f.type)})
        for f in fields(declaration)
        if isinstance(f.type, type) and issubclass(f.type, SettingTable)
    }
    for table in found.values():
        if secret := next((name for name, key in table.keys.items() if key.metadata["secret"]), ""):
            raise ValueError(
                f"{table.name}.{secret} is declared as secret; a secret is a setting of its own, in no table"
            )
    flat = {flat: (name, key) for name, table in found.items() for key, flat in table.flat_names.items()}
    return KnownTables(found, flat)
