"""Command-line flags that all commands share, and how flags become settings; swarm.cli.run_flags has all others.

A flag that is not given is None and leaves the setting to the environment, the settings file and the default.

What they name is opened here, and waited for, visibly, where others have yet to make it.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

from cyclopts import Group, Parameter

from swarm.cli.say import warn
from swarm.config import (
    EXPERIMENT_NAME,
    Settings,
    StartRequest,
    asked_in,
    given_variables,
    load_settings,
    sources_of,
)
from swarm.config.place import is_url
from swarm.config.settings import FIELDS, PlaceSettings, flags_of
from swarm.config.sources import Given
from swarm.config.sources import given as given_settings
from swarm.errors import ConfigError, ExperimentError
from swarm.records.listing import MOST_LOOKED_INTO
from swarm.records.made_by import as_ours
from swarm.spelling import did_you_mean, named
from swarm.store.place import Place, open_place
from swarm.store.run import Run
from swarm.wire import keys

Found = TypeVar("Found")
POLL_SECONDS = 0.25
MOST_NAMED = 10
"""Experiments of a place that a message names."""
SAID_EVERY = 30.0
"""Seconds between two lines that say that one waits; the first comes at once."""

SETTING_OF_FLAG = {flag: name for name, f in FIELDS.items() for flag in flags_of(f)}
"""Flag, as a name in Python -> setting."""


FIRST = Group(PlaceSettings.section, sort_key=1)
"""The panel of the flags that every command has."""
PathFlag = Annotated[str | None, Parameter(("--path", "--gdrive-path"), help="", group=FIRST)]
"""Path of commands that look at a shared folder, and at no experiment."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CommonFlags:
    """Declares the flags that say which experiment, and which settings file. swarm.cli.help says what settings mean."""

    path: PathFlag = None
    experiment: Annotated[str | None, Parameter(help="", group=FIRST)] = None
    config: Annotated[
        str | None,
        Parameter(help="TOML file of settings: lines `name = value` (docs/settings.md). [default: None]", group=FIRST),
    ] = None


def settings_from(
    given_flags: CommonFlags | None,
    environ: Mapping[str, str] = os.environ,
    *,
    base: Given | None = None,
    own: Mapping[str, Any] | None = None,
    **defaults: Any,
) -> Settings:
    """Returns settings from flags, the environment, the settings file named by `--config`, and a command's own
    defaults.

    Args:
        base: setting -> value and where it came from, above the defaults alone.
        own: setting -> value that the command decides, as if its flag had been given.

    Raises:
        ConfigError: an unknown or malformed setting, or the place is no folder.
    """
    given = given_flags or CommonFlags()
    settings = load_settings(as_settings(given) | dict(own or {}), environ, given.config, base=base, **defaults)
    _refuse_no_folder(settings.place)
    if not (settings.task_table or settings.tasks):
        return settings
    from swarm.tasks.universe import completed  # here: who only looks names no tasks

    return completed(settings, Path.cwd())


def _refuse_no_folder(place: str) -> None:
    """See that a place that is no URL may be a folder. Raises ConfigError."""
    if is_url(place):
        return
    if os.path.isfile(place):
        raise ConfigError(f"--path: {place} is a file; name a folder, which nodes make if it is not there")
    if os.name != "nt" and (named := re.search(r"(?:^|/)([A-Za-z]:[\\/].*)", place)):
        raise ConfigError(f"--path: {named[1]} is a path of Windows; here a folder is written as /home/me/runs")


def refuse_no_folder_for(flag: str, file: Path | None) -> None:
    """See that the folder of a file that is to be written is there. Raises ConfigError."""
    if file is not None and not file.expanduser().absolute().parent.is_dir():
        raise ConfigError(f"{flag} {file}: there is no folder {file.expanduser().absolute().parent}; make it first")


def settings_to_look(given_flags: CommonFlags | None) -> Settings:
    """Returns the settings of a command that looks at an experiment: where nobody named one, at the one that is meant.

    Raises:
        ConfigError: an unknown or malformed setting.
        ExperimentError: there are several, and nobody said which.
        StoreError: the place cannot be listed.
    """
    settings = settings_from(given_flags)
    if is_named(given_flags or CommonFlags()):
        return settings
    place = open_place(settings.place)
    there = _not_empty(place, likely_experiments(place))
    return replace(settings, experiment=meant_experiment(place, there)) if there else settings


def named_flags(name: str | None, experiment_flags: CommonFlags | None) -> CommonFlags:
    """Returns the flags with the experiment that was named, by its name or by --experiment."""
    experiment_flags = experiment_flags or CommonFlags()
    if name is not None and experiment_flags.experiment is not None:
        raise ConfigError(f"name one experiment, got {name} and --experiment {experiment_flags.experiment}")
    return experiment_flags if name is None else replace(experiment_flags, experiment=name)


def is_named(given_flags: CommonFlags) -> bool:
    """Tells whether a flag, a variable or the settings file names the experiment."""
    if given_flags.experiment is not None:
        return True
    preset, asked = given_settings(as_settings(given_flags), os.environ, given_flags.config)
    return "experiment" in preset | asked


def likely_experiments(place: Place) -> list[str]:
    """Returns the experiments of a place that can be meant without a name: none of a name that a node would refuse, and
    no link, for whoever may write there may make folders of any name, and links to anywhere."""
    return [name for name in place.experiments() if EXPERIMENT_NAME.fullmatch(name) and not place.is_link(name)]


def _not_empty(place: Place, names: list[str]) -> list[str]:
    """Returns those of several that hold something, if any does: an empty folder is nothing to look at."""
    if not 1 < len(names) <= MOST_LOOKED_INTO:
        return names
    return [name for name in names if place.open(name).store.list("", limit=1).entries] or names


def meant_experiment(place: Place, names: Sequence[str]) -> str:
    """Returns the experiment that is meant where nobody names one: the only one, or the only one that is not over.

    Args:
        names: those of the place that it can be, one at least.

    Raises:
        ExperimentError: there are several.
    """
    if len(names) == 1:
        return names[0]
    if len(names) > MOST_LOOKED_INTO:
        raise ExperimentError(
            f"{place.describe()} holds {len(names)} experiments: name one, such as --experiment {names[-1]}"
        )
    from swarm.records.reader import snapshot  # here: most commands are told which run, and start sooner without it

    running = [name for name in names if snapshot(place.open(name)).finished is None]
    begun = [name for name in running if place.open(name).store.stat(keys.EXPERIMENT)]
    if len(found := begun or running) == 1:
        return found[0]
    shown = found or names
    raise ExperimentError(
        f"{place.describe()} holds {len(names)} experiments, {len(running)} of them not over: "
        f"{', '.join(shown[:MOST_NAMED])}{', ...' if len(shown) > MOST_NAMED else ''}; "
        f"name one, such as --experiment {shown[-1]}"
    )


def asked_for(
    words: Sequence[str], given_flags: CommonFlags | None, base: Given | None = None, **defaults: Any
) -> StartRequest:
    """Returns what this process was asked for, for the record: by the command that started it, or by a person.

    Args:
        words: the command's name and arguments; the others as in settings_from.
    """
    if asked := asked_in(os.environ):
        return asked
    given = given_flags or CommonFlags()
    sources = sources_of(as_settings(given), os.environ, given.config, base=base, **defaults)
    return StartRequest(command_again(words, given_flags), sources)


def open_experiment(settings: Settings, writer: str | None = None) -> Run:
    """Returns the experiment that the settings name: for a writer, there or not; to read alone, one that is there,
    whoever made it."""
    run = open_place(settings.place).open(settings.experiment, writer)
    return as_ours(run) if writer is None else run


def as_settings(given_flags: CommonFlags) -> dict[str, Any]:
    """Returns setting name -> value of the flags that were given."""
    named = {f.name: getattr(given_flags, f.name) for f in fields(given_flags) if f.name != "config"}
    return {SETTING_OF_FLAG.get(name, name): value for name, value in named.items() if value is not None}


def command_again(words: Sequence[str], given_flags: Any, *, without: Collection[str] = ()) -> str:
    """Returns the command that starts the same again: the settings in the environment, words, and the flags that were
    given.

    Args:
        words: the command's name and arguments.
        given_flags: a class of flags; None: none were given.
        without: flags that are left out.
    """
    again = [*words, *flag_words(given_flags, without)]
    environment = [f"{name}={shlex.quote(value)}" for name, value in given_variables(os.environ).items()]
    return " ".join([*environment, shlex.join(again)])


def flag_words(given_flags: Any, without: Collection[str] = ()) -> list[str]:
    """Returns the flags that were given, as they are typed. Arguments as of `command_again`."""
    words: list[str] = []
    for name, value in vars(given_flags).items() if given_flags else ():
        if value is not None and name not in without:
            flag = name.replace("_", "-")
            words += (
                [f"--{flag}"] if value is True else [f"--no-{flag}"] if value is False else [f"--{flag}", str(value)]
            )
    return words


def wait_for(look: Callable[[], Found | None], what: str, patience: float | None = None) -> Found | None:
    """Look again and again until something is found, and say on standard error what is waited for.

    Args:
        what: the rest of `waiting for ...`.
        patience: seconds after which None is returned; None: never.
    """
    began, said = time.monotonic(), 0.0
    while not (found := look()):
        waited = time.monotonic() - began
        if patience is not None and waited >= patience:
            return None
        if waited >= said:
            warn(f"waiting for {what}{f' ({waited:.0f} s)' if said else ''}; Ctrl-C ends this")
            said += SAID_EVERY
        time.sleep(POLL_SECONDS)
    return found


def open_experiment_when_there(settings: Settings) -> Run:
    """Returns the experiment that the settings name, to read it, as soon as somebody has begun it."""
    place = open_place(settings.place)
    there = place.experiments
    what = f"the experiment {settings.experiment} in {place.describe()}"
    others = f", there are {named(found)}{did_you_mean(settings.experiment, found)}" if (found := there()) else ""
    wait_for(lambda: settings.experiment in there() or None, what + others)
    return open_experiment(settings)
