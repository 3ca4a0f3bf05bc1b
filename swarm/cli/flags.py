"""Command-line flags that several commands share, and how they become settings.

The flags are those that the declarations in swarm.config.settings name. One that is not given is None and leaves the
setting to the environment, the settings file and the default.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, TypeVar

from cyclopts import Parameter

from swarm.config import Asked, Settings, asked_in, given_variables, load_settings, sources_of
from swarm.config.constraints import plain_type
from swarm.config.meanings import meanings
from swarm.config.presets import PRESETS
from swarm.config.settings import FIELDS
from swarm.config.sources import Given
from swarm.records.made_by import as_ours
from swarm.store.place import open_place
from swarm.store.run import Run

Flags = TypeVar("Flags")

_MEANINGS = meanings(Settings)
SETTING_OF_FLAG = {
    f.metadata[kind]: name for name, f in FIELDS.items() for kind in ("run_flag", "node_flag") if f.metadata[kind]
}


def _declared(kind: str) -> Callable[[type[Flags]], type[Flags]]:
    """Gives a class of flags a field for each setting that has a flag of this kind."""

    def with_fields(cls: type[Flags]) -> type[Flags]:
        declared = [f for f in FIELDS.values() if f.metadata[kind]]
        flags = {f.metadata[kind]: _flag(f.name, f.metadata[kind]) for f in declared}
        cls.__annotations__ = cls.__annotations__ | flags
        for flag in flags:
            setattr(cls, flag, None)
        return Parameter(name="*")(dataclass(frozen=True, kw_only=True)(cls))

    return with_fields


def _flag(setting: str, flag: str) -> Any:
    kind = plain_type(FIELDS[setting].type)
    negative = f"--no-{flag}" if kind is bool else ()
    # Names come separated by commas, as in the environment.
    return Annotated[(str if kind is tuple else kind) | None, Parameter(help=_MEANINGS[setting], negative=negative)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CommonFlags:
    """Which experiment, and which settings file."""

    path: Annotated[str | None, Parameter(help=_MEANINGS["path"])] = None
    experiment: Annotated[str | None, Parameter(help=_MEANINGS["experiment"])] = None
    config: Annotated[str | None, Parameter(help="TOML file of settings.")] = None


@_declared("run_flag")
class RunFlags(CommonFlags):
    """What a run does."""

    preset: Annotated[str | None, Parameter(help=f"Values for many settings at once: {', '.join(PRESETS)}.")] = None


@_declared("node_flag")
class NodeFlags(RunFlags):
    """Which node this is."""


def settings_from(
    flags: CommonFlags | None,
    environ: Mapping[str, str] = os.environ,
    *,
    base: Given | None = None,
    own: Mapping[str, Any] | None = None,
    **defaults: Any,
) -> Settings:
    """Settings from flags, the environment, the settings file named by `--config`, and a command's own defaults.

    Args:
        base: setting -> value and where it came from, above the defaults alone.
        own: setting -> value that the command decides, as if its flag had been given.

    Raises:
        ConfigError: an unknown or malformed setting.
    """
    flags = flags or CommonFlags()
    return load_settings(as_settings(flags) | dict(own or {}), environ, flags.config, base=base, **defaults)


def asked_for(words: Sequence[str], flags: CommonFlags | None, base: Given | None = None, **defaults: Any) -> Asked:
    """What this process was asked for, for the record: by the command that started it, or by a person.

    Args:
        words: the command's name and arguments; the others as in settings_from.
    """
    if asked := asked_in(os.environ):
        return asked
    given = flags or CommonFlags()
    sources = sources_of(as_settings(given), os.environ, given.config, base=base, **defaults)
    return Asked(command_again(words, flags), sources)


def open_experiment(settings: Settings, writer: str | None = None) -> Run:
    """The experiment that the settings name: for a writer, there or not; to read alone, one that is there, whoever made
    it."""
    run = open_place(settings.shared_folder).open(settings.experiment, writer)
    return as_ours(run) if writer is None else run


def as_settings(flags: CommonFlags) -> dict[str, Any]:
    """Setting name -> value of the flags that were given."""
    named = {f.name: getattr(flags, f.name) for f in fields(flags) if f.name != "config"}
    return {SETTING_OF_FLAG.get(name, name): value for name, value in named.items() if value is not None}


def command_again(words: Sequence[str], flags: Any, *, without: Collection[str] = ()) -> str:
    """The command that starts the same again: the settings in the environment, words, and the flags that were given.

    Args:
        words: the command's name and arguments.
        flags: a class of flags; None: none were given.
        without: flags that are left out.
    """
    again = list(words)
    for name, value in vars(flags).items() if flags else ():
        if value is not None and name not in without:
            flag = name.replace("_", "-")
            again += (
                [f"--{flag}"] if value is True else [f"--no-{flag}"] if value is False else [f"--{flag}", str(value)]
            )
    environment = [f"{name}={shlex.quote(value)}" for name, value in given_variables(os.environ).items()]
    return " ".join([*environment, shlex.join(again)])
