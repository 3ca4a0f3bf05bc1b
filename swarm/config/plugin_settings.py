"""Settings that plugins declare, and every setting by its name: FIELDS and VARIABLES.

    the core's   Settings ───────────────────────────────────┐
    our plugins' entry points in `swarm.settings` ───────────┼▶ name, variable ─▶ field
    anybody's    likewise, once a name is asked for that is ─┘
                 none of these

A plugin declares its settings as settings.py does, and registers the class in `swarm.settings` under the plugin's name:

    @dataclass(frozen=True, kw_only=True)
    class GreetingSettings(PluginSettings):
        section = "Greeting"
        greeting: Text = setting("hello", "SWARM_GREETING")
        '''What a node says when it starts.'''

It reads them as `settings.of(GreetingSettings).greeting`; no module of the core names them. They are said wherever a
setting is said, except that flags are made of our own plugins' alone. Settings hold what is not at its default: a
plugin of which nothing is held is off, and nothing of it is imported but its declaration (Settings.plugins). Ours are
imported with every command that reads settings, so a declaration imports nothing that is slow.

A plugin that cannot be had, or that takes a name that is taken, is left out: its settings are then unknown ones, and
whoever says one is told why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, fields, is_dataclass
from typing import Any, NamedTuple, get_type_hints

import msgspec

from swarm import entry_points
from swarm.config.constraints import PREFIX
from swarm.config.tables import KnownTables, SettingSection, tables_of
from swarm.entry_points import DanglingError, EntryPoint
from swarm.extras import NAME


@dataclass(frozen=True, kw_only=True)
class PluginSettings(SettingSection):
    section = "Plugins"

    def check(self, settings: Any) -> None:
        """Sees that these settings contradict neither each other nor the core's. Not asked where all are at their
        defaults.

        Args:
            settings: all Settings.

        Raises:
            ConfigError: they do.
        """


class Declaration(NamedTuple):
    entry: EntryPoint
    declared: type[PluginSettings]

    @property
    def plugin(self) -> str:
        """Returns its name in `swarm.settings`."""
        return self.entry.name

    @property
    def is_ours(self) -> bool:
        """Tells whether it came with swarm; any other is code of the user's own choice."""
        return self.entry.distribution == NAME


class KnownSettings(Mapping[str, Field[Any]]):
    """Every setting that is known: name -> field. A name that is not makes it look at all installed distributions."""

    def __init__(self, core: type) -> None:
        self.tables: KnownTables = tables_of(core)
        self.core: Mapping[str, Field[Any]] = self.tables.flat_fields(fields(core))
        """The core's alone, keys of its tables by their flat names."""
        self.problems: list[str] = []
        """One line for each plugin whose settings cannot be had."""
        self._known = dict(self.core)
        self._variables = _variables_of(self.core)
        self._declarations: dict[str, Declaration] = {}
        """Setting -> who declares it."""
        self._looked: set[str] = set()
        """Entry points that were looked at."""
        self._looked_at_ours = self._looked_at_all = False

    def __getitem__(self, name: str) -> Field[Any]:
        if name in self.core:
            return self.core[name]
        self._look_at_ours()
        if name not in self._known:
            self.look_further()
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        self._look_at_ours()
        return iter(self._known)

    def __len__(self) -> int:
        self._look_at_ours()
        return len(self._known)

    @property
    def variables(self) -> Mapping[str, str]:
        """Returns variable -> setting, of all that are known."""
        self._look_at_ours()
        return self._variables

    @property
    def declarations(self) -> list[Declaration]:
        """Returns the plugins that are known to have settings."""
        self._look_at_ours()
        return list(dict.fromkeys(self._declarations.values()))

    def declaration_of(self, name: str) -> Declaration | None:
        """Returns the plugin that declares a setting; None where the core does."""
        self[name]
        return self._declarations.get(name)

    def look_further(self) -> None:
        """Looks at all installed distributions, once."""
        self._look_at_ours()
        if not self._looked_at_all:
            self._looked_at_all = True
            self._take_in(entry_points.found(entry_points.SETTINGS).values())

    def _look_at_ours(self) -> None:
        if not self._looked_at_ours:
            self._looked_at_ours = True
            self._take_in(entry_points.bundled(entry_points.SETTINGS).values())

    def _take_in(self, entries: Iterable[EntryPoint]) -> None:
        known = dict(self._known)
        for entry in entries:
            if entry.name in self._looked:
                continue
            self._looked.add(entry.name)
            try:
                one = Declaration(entry, entry_points.load(entry))
                theirs = _fields_of(one, known)
            except DanglingError as error:
                self.problems.append(str(error))
            except (TypeError, ValueError, NameError, msgspec.MsgspecError) as error:
                self.problems.append(f"the settings of {entry.value} of {entry.distribution} are left out: {error}")
            else:
                known |= theirs
                self._declarations |= dict.fromkeys(theirs, one)
        self._known, self._variables = known, _variables_of(known)


def _variables_of(known: Mapping[str, Field[Any]]) -> dict[str, str]:
    return {variable: name for name, f in known.items() for variable in f.metadata["env"]}


def _fields_of(one: Declaration, known: Mapping[str, Field[Any]]) -> dict[str, Field[Any]]:
    """Raises TypeError, ValueError, NameError, MsgspecError: they are no declaration, or names in it are taken."""
    cls = one.declared
    if not (isinstance(cls, type) and issubclass(cls, PluginSettings) and is_dataclass(cls)):
        raise TypeError("expected a dataclass that is a swarm.config.plugin_settings.PluginSettings")
    found = {f.name: f for f in fields(cls)}
    if any(isinstance(f.type, str) for f in found.values()):  # its module has `from __future__ import annotations`
        hints = get_type_hints(cls, include_extras=True)
        for name, field in found.items():
            field.type = hints[name]
    taken = _variables_of(known).keys()
    for name, field in found.items():
        if not field.metadata.get("env"):
            raise TypeError(f"{name}: expected setting(default, {PREFIX}NAME)")
        if odd := [variable for variable in field.metadata["env"] if not variable.startswith(PREFIX)]:
            raise ValueError(f"{name}: expected a variable that begins with {PREFIX}, got {odd[0]}")
        if name in known or taken & {*field.metadata["env"]}:
            raise ValueError(f"{name}: another setting has this name, or its variable")
    msgspec.convert(vars(cls()), cls)
    return found


class KnownVariables(Mapping[str, str]):
    """Variable -> setting. An unknown one that begins as plugins' do makes it look at all installed distributions."""

    def __init__(self, known: KnownSettings, more: Mapping[str, str]) -> None:
        """`more`: variables that name no setting -> what they name."""
        self._settings = known
        self._more = dict(more)

    def __getitem__(self, variable: str) -> str:
        if variable in self._more:
            return self._more[variable]
        if variable not in self._settings.variables and variable.startswith(PREFIX):
            self._settings.look_further()
        return self._settings.variables[variable]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._settings.variables, **self._more})

    def __len__(self) -> int:
        return len({**self._settings.variables, **self._more})
