"""Decides what a node takes from the experiment that it joins: what made the experiment what it is, and how long it
lasts.

    experiment.json, the clock ─▶ adopted: setting ─▶ value ─┐
    flags, environment, settings file ──────────────────────┴▶ Settings, or what contradicts the experiment

What its user says counts above it, as far as the node then has anything to share with its peers. Who wrote the folder
is a stranger: values are checked as any setting is, bounded, and never name code to import.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from swarm.cli.before_start import refuse_place
from swarm.cli.flags import CommonFlags, as_settings, settings_from
from swarm.cli.say import warn
from swarm.cli.suiting import PROFILE, refuse_unsuited
from swarm.cli.waiting import wait_for
from swarm.config import EXPERIMENT_NAME, Settings, in_identity, refuse_unsafe, sources_of, variable
from swarm.config.settings import FIELDS
from swarm.config.sources import Given, parse
from swarm.errors import ConfigError, ExperimentError
from swarm.harmless import printable
from swarm.node.base.experiment import SHARED, differences, differing, identity_of, read_experiment
from swarm.records.files import LONGEST_MAKER, read_clock
from swarm.records.listing import MOST_LOOKED_INTO
from swarm.records.made_by import made_by, refuse_foreign
from swarm.records.reader import snapshot
from swarm.records.task_files import localised
from swarm.store.place import Place, open_place
from swarm.store.run import Run
from swarm.tasks.definitions import check
from swarm.tasks.registry import complete
from swarm.tasks.universe import check_tasks
from swarm.wire import keys
from swarm.wire.messages import ExperimentFile

SHOWN = ("seed", "local_groups", "external_groups", "generations", "profile", "tasks", "max_rounds", "clock")
"""Settings that a node that joins is told in any case."""

MOST_NAMED = 10
"""Experiments of a place that a message names."""


class JoinedSettings(NamedTuple):
    """A node's settings for an experiment that is there."""

    settings: Settings
    adopted: Given
    """What came from the experiment, with where it came from; what the user said is not in it."""


def take(given_flags: CommonFlags | None, run: Run, experiment: ExperimentFile, **own: Any) -> JoinedSettings:
    """Returns the settings of a node that joins an experiment.

    Args:
        own: settings that the command itself decides.

    Raises:
        ConfigError: a value of the experiment's is beyond what is taken, or names code.
        ExperimentError: the user's settings contradict the experiment's.
    """
    given_flags = given_flags or CommonFlags()
    named = sources_of(as_settings(given_flags) | own, os.environ, given_flags.config)
    said = adopted(run, experiment)
    base = {name: value for name, value in said.items() if name not in named}
    refuse_unsafe(base)
    if "task_table" in base:
        base["task_table"] = with_files(run, base["task_table"], settings_from(given_flags).private_folder)
    settings = _tasks_as_mixture(settings_from(given_flags, base=base, own=own), said)
    refuse_unsuited(settings, run, said[PROFILE][0], chosen=PROFILE in named)
    _refuse_contradictions(settings, experiment, named)
    return JoinedSettings(settings, base)


def with_files(run: Run, said: tuple[object, str], private: Path) -> tuple[object, str]:
    """Returns the task table of an experiment, with files on this machine. Raises ConfigError: one cannot be had or
    asked."""
    table, source = parse("task_table", *said) or {}, said[1]
    for name, parameters in table.items():
        check(name, parameters)
    found = localised(run.store, table, private / keys.TASKS)
    return complete(found, Path.cwd()) or None, source


def with_tasks_of(run: Run, experiment: ExperimentFile, settings: Settings) -> Settings:
    """Returns the settings of who asks an experiment's questions and is no node of it, with the tasks that it defines.

    Raises:
        ConfigError: they name code, or a file cannot be had.
    """
    said = {name: value for name, value in adopted(run, experiment).items() if name == "task_table"}
    if settings.task_table or not said or said["task_table"][0] is None:
        return settings
    refuse_unsafe(said)
    table, source = with_files(run, said["task_table"], settings.private_folder)
    return replace(settings, task_table=parse("task_table", table, source))


def _tasks_as_mixture(settings: Settings, said: Given) -> Settings:
    """Makes a mixture of the tasks that somebody names of the experiment's, where no mixture is given."""
    made = parse("tasks", *said["tasks"]) if "tasks" in said else None
    if settings.tasks is None or settings.tasks == made or settings.mixture:
        return settings
    ours = replace(settings, tasks=made, mixture=("+".join(settings.tasks),))
    try:
        check_tasks(ours)
    except ConfigError:
        return settings  # what it contradicts is said below
    return ours


def adopted(run: Run, experiment: ExperimentFile) -> Given:
    """Returns setting -> value and source, of all that an experiment says."""
    identity = {name: value for name, value in identity_of(experiment).items() if in_identity(name)}
    state = read_clock(run).state
    rounds = state.max_rounds if state else experiment.max_rounds
    values = identity | ({"max_rounds": rounds} if rounds else {})
    return {name: (value, f"the experiment {run.experiment}") for name, value in values.items()}


def _refuse_contradictions(settings: Settings, experiment: ExperimentFile, named: dict[str, str]) -> None:
    differ = differing(settings, experiment)
    wrong = [name for name in SHARED if name in named and name in differ]
    if wrong:
        texts, variables = [differ[name] for name in wrong], [variable(name) for name in wrong]
        raise ExperimentError(
            f"{'; '.join(texts)}: peers of the experiment {experiment.experiment_name} would refuse all groups of this "
            f"node. Leave out {' and '.join(variables)}, which came from {', '.join(named[n] for n in wrong)}, and "
            f"start it again: it takes what the experiment has, and nodes draw different questions anyway"
        )


def tell(run: Run, joining: JoinedSettings, experiment: ExperimentFile) -> None:
    """Say what was taken from where, and what differs."""
    settings = joining.settings.as_recorded()
    shown = [name for name in (*SHOWN, *joining.adopted) if name in SHOWN or settings[name] != FIELDS[name].default]
    taken = [f"{variable(name)}={_text(settings[name])}" for name in dict.fromkeys(shown) if name in joining.adopted]
    maker = printable(experiment.created_by)[:LONGEST_MAKER]
    warn(f"joins the experiment {run.experiment} in {run.store.describe()}, made by {maker}")
    warn(printable(f"taken from it: {', '.join(taken) or 'nothing'}"))
    for text in differences(joining.settings, experiment):
        warn(f"{text}, as asked for")


def _text(value: object) -> str:
    return "all" if value is None else ",".join(map(str, value)) if isinstance(value, list) else str(value)


def experiment_in(run: Run, patience: float | None) -> ExperimentFile | None:
    """Waits for the settings of an experiment; gives None after `patience` seconds, or never where `patience` is None.

    Raises:
        ExperimentError: another program made it.
    """
    refuse_foreign(run)
    what = f"the experiment {run.experiment} in {run.store.describe()}: its coordinator has not begun it"
    return wait_for(lambda: read_experiment(run), what, patience)


def only_experiment(place: Place, patience: float | None = None) -> str:
    """Returns the one experiment of a place that this program made, or the one of several that is not over; waits for
    the first.

    Raises:
        ExperimentError: there are several.
    """
    names = (
        wait_for(lambda: _of_this_program(place), f"an experiment in {place.describe()}: there is none yet", patience)
        or []
    )
    if len(names) == 1:
        return names[0]
    if len(names) > MOST_LOOKED_INTO:
        raise ExperimentError(f"{place.describe()} holds {len(names)} experiments: name one with --experiment")
    running = [name for name in names if snapshot(place.open(name)).finished is None]
    begun = [name for name in running if place.open(name).store.stat(keys.EXPERIMENT)]
    if len(found := begun or running) == 1:
        return found[0]
    raise ExperimentError(
        f"{place.describe()} holds {len(names)} experiments, {len(running)} of them not over: "
        f"{', '.join((found or names)[:MOST_NAMED])}{', ...' if len(found or names) > MOST_NAMED else ''}; name one "
        "with --experiment"
    )


def _of_this_program(place: Place) -> list[str]:
    """Whoever may write there may make folders of any name, and links to anywhere."""
    names = [name for name in place.experiments() if EXPERIMENT_NAME.fullmatch(name) and not place.is_link(name)]
    return names if len(names) > MOST_LOOKED_INTO else [name for name in names if not made_by(place.open(name))]


def place_named(text: str) -> Place:
    """Returns the place that people name on the command line, to join in. Raises StoreError: nobody can write there."""
    folder = settings_from(CommonFlags(path=text)).place
    refuse_place(folder)
    return open_place(folder)
