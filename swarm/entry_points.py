"""Finds plugins: what installed packages registered under `[project.entry-points."swarm.GROUP"]` (docs/plugins.md).

    bundled(group) ─ our own distribution's ─┐
                                             ├▶ found(group) ─▶ load(entry) ─▶ the object, or DanglingError
    every other installed distribution's ────┘

Nothing here imports a plugin before `load` does. The files that pip leaves are read as they are, for importlib.metadata
takes 20 ms to import. Looking our own up costs 0.5 ms, all distributions' some 5 ms: only names ask for them that
neither the core nor our own plugins know.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from swarm.errors import ConfigError
from swarm.extras import NAME

COMMANDS = "swarm.commands"
TASKS = "swarm.tasks"
MODELS = "swarm.models"
SINKS = "swarm.sinks"
PLACES = "swarm.places"
REPORT = "swarm.report"
AGAINST = "swarm.against"
NOTIFY = "swarm.notify"
BESIDE = "swarm.beside"
MAKERS = "swarm.makers"
BACKENDS = "swarm.backends"
SETTINGS = "swarm.settings"
HOOKS = "swarm.hooks"
TRAINING = "swarm.training"
RULES = "swarm.rules"
PACKAGE = "swarm.plugins"


class EntryPoint(NamedTuple):
    """One line of a distribution's `entry_points.txt`."""

    distribution: str
    group: str
    name: str
    value: str
    """`package.module` or `package.module:object`."""


class DanglingError(ConfigError):
    """An installed package registered a plugin that cannot be imported."""


def bundled(group: str) -> dict[str, EntryPoint]:
    """Returns the entry points of our own distribution in a group, by name; none where swarm is not installed."""
    return {entry.name: entry for entry in _own() if entry.group == group}


def found(group: str) -> dict[str, EntryPoint]:
    """Returns the entry points of all installed distributions in a group, by name.

    Our own come first and keep their names; of two others with one name, the distribution earlier in the alphabet does.
    """
    others = sorted((entry for entry in _all() if entry.group == group), reverse=True)
    ours = bundled(group)
    return ours | {entry.name: entry for entry in others if entry.name not in ours}


def load(entry: EntryPoint) -> Any:
    """Returns what an entry point names, imported.

    Raises:
        DanglingError: it cannot be imported, for whatever reason; says whose it is and what to type.
    """
    try:
        module, _, name = entry.value.partition(":")
        loaded = import_module(module)
        return getattr(loaded, name) if name else loaded
    except Exception as error:
        raise DanglingError(
            f"{entry.name} ({entry.group}) of {entry.distribution} cannot be had: {entry.value} raises "
            f"{type(error).__name__}: {error}; install {entry.distribution} again, or remove it: pip "
            f"uninstall {entry.distribution}"
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


def of_plugins(group: str, plugins: Sequence[str]) -> list[Any]:
    """Returns what these plugins registered in a group under their names, for those that did.

    Raises:
        DanglingError: one cannot be imported.
    """
    ours = bundled(group) if plugins else {}
    there = ours if all(name in ours for name in plugins) else found(group)
    return [load(there[name]) for name in plugins if name in there]


def of_plugin(plugin: str, name: str) -> Any:
    """Returns what a plugin of ours offers to Python under a name, for the module that forwards to it.

    Raises:
        AttributeError: it offers nothing of that name.
        ModuleNotFoundError: the plugin, or a library that it needs, is not installed.
    """
    if name in ("__path__", "__file__"):  # what the import machinery asks a module for is not the plugin's
        raise AttributeError(name)
    return getattr(import_module(f"{PACKAGE}.{plugin}"), name)


def unregistered() -> list[str]:
    """Returns our own plugins whose commands or settings no entry point names: swarm was updated, and not installed
    again."""
    named = {entry.value.partition(":")[0] for group in (COMMANDS, SETTINGS) for entry in bundled(group).values()}
    files = (file for part in ("commands", "settings") for file in Path(__file__).parent.glob(f"plugins/*/{part}.py"))
    return sorted({f.parent.name for f in files if f"{PACKAGE}.{f.parent.name}.{f.stem}" not in named})


def _own() -> list[EntryPoint]:
    """Returns our own entry points: those of the first place on the path that has any of ours."""
    for folder in sys.path:
        for file, distribution in _files(folder):
            if distribution == NAME:
                return [*_read(file, distribution)]
    return []


def _all() -> Iterator[EntryPoint]:
    """Yields the entry points of all distributions, of each as the first place on the path has it."""
    seen = set[str]()
    for folder in dict.fromkeys(sys.path):
        for file, distribution in _files(folder):
            if distribution not in seen:
                seen.add(distribution)
                yield from _read(file, distribution)


def _files(folder: str) -> Iterator[tuple[str, str]]:
    """Yields the file of entry points that each distribution in a folder may have, and the distribution's name."""
    with suppress(OSError):  # a zip file, or a folder that is not there
        for name in sorted(os.listdir(folder or ".")):
            stem, dot, kind = name.rpartition(".")
            if dot and kind in ("dist-info", "egg-info"):
                yield f"{folder or '.'}/{name}/entry_points.txt", _NO_LETTERS.sub("-", stem.partition("-")[0]).lower()


def _read(file: str, distribution: str) -> Iterator[EntryPoint]:
    group = ""
    with suppress(OSError, UnicodeDecodeError):  # it has none
        for line in Path(file).read_text("utf-8").splitlines():
            name, equals, value = map(str.strip, line.partition("="))
            if name.startswith("[") and not equals:
                group = name.strip("[]")
            elif equals and not name.startswith(("#", ";")):
                yield EntryPoint(distribution, group, name, value.partition("[")[0].strip())


_NO_LETTERS = re.compile(r"[-_.]+")
