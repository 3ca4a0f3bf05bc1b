"""Finds plugins: what installed packages registered under `[project.entry-points."swarm.GROUP"]` (docs/plugins.md).

    bundled(group) ─ our own distribution's ─┐
                                             ├▶ found(group) ─▶ load(entry) ─▶ the object, or DanglingError
    every other installed distribution's ────┘

Nothing here imports a plugin before `load` does. Looking our own up costs 0.5 ms; all distributions' cost some 10 ms:
only names ask for them that neither the core nor our own plugins know.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swarm.errors import ConfigError
from swarm.extras import NAME

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

COMMANDS = "swarm.commands"
TASKS = "swarm.tasks"
MODELS = "swarm.models"
SINKS = "swarm.sinks"
PLACES = "swarm.places"
REPORT = "swarm.report"
BESIDE = "swarm.beside"
MAKERS = "swarm.makers"
BACKENDS = "swarm.backends"
PACKAGE = "swarm.plugins"


class DanglingError(ConfigError):
    """An installed package registered a plugin that cannot be imported."""


def bundled(group: str) -> dict[str, EntryPoint]:
    """Returns the entry points of our own distribution in a group, by name; none where swarm is not installed."""
    return {entry.name: entry for entry in _own() if entry.group == group}


def found(group: str) -> dict[str, EntryPoint]:
    """Returns the entry points of all installed distributions in a group, by name.

    Our own come first and keep their names; of two others with one name, the distribution earlier in the alphabet does.
    """
    from importlib.metadata import entry_points

    others = sorted(entry_points(group=group), key=distribution_of, reverse=True)
    ours = bundled(group)
    return ours | {entry.name: entry for entry in others if entry.name not in ours}


def load(entry: EntryPoint) -> Any:
    """Returns what an entry point names, imported.

    Raises:
        DanglingError: it cannot be imported, for whatever reason; says whose it is and what to type.
    """
    try:
        return entry.load()
    except Exception as error:
        distribution = distribution_of(entry)
        raise DanglingError(
            f"{entry.name} ({entry.group}) of {distribution} cannot be had: {entry.value} raises "
            f"{type(error).__name__}: {error}; install {distribution} again, or remove it: pip uninstall {distribution}"
        ) from error


def needed(group: str, name: str, what: str) -> Any:
    """Returns what a plugin registered under its name, for something that a user asked for.

    Args:
        what: asks for it, such as a variable.

    Raises:
        ConfigError: there is no such plugin, or it cannot be imported.
    """
    entry = bundled(group).get(name) or found(group).get(name)
    if entry is None:
        raise ConfigError(f"{what} needs the plugin {name}, which is not registered here: install swarm again, with it")
    return load(entry)


def distribution_of(entry: EntryPoint) -> str:
    """Returns the name of the distribution that registered an entry point."""
    return entry.dist.name if entry.dist else "an unnamed distribution"


def of_plugin(plugin: str, name: str) -> Any:
    """Returns what a plugin of ours offers to Python under a name, for the module that forwards to it.

    Raises:
        AttributeError: it offers nothing of that name.
        ModuleNotFoundError: the plugin, or a library that it needs, is not installed.
    """
    from importlib import import_module

    if name in ("__path__", "__file__"):  # what the import machinery asks a module for is not the plugin's
        raise AttributeError(name)
    return getattr(import_module(f"{PACKAGE}.{plugin}"), name)


def unregistered() -> list[str]:
    """Returns our own plugins whose commands no entry point names: swarm was updated, and not installed again."""
    named = {entry.value for entry in bundled(COMMANDS).values()}
    here = sorted(file.parent.name for file in Path(__file__).parent.glob("plugins/*/commands.py"))
    return [name for name in here if f"{PACKAGE}.{name}.commands" not in named]


def _own() -> Iterable[EntryPoint]:
    from importlib.metadata import PackageNotFoundError, distribution  # here: it imports the half of `email`

    try:
        return distribution(NAME).entry_points
    except PackageNotFoundError:
        return ()
