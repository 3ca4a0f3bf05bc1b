"""Says what a run may ask: its tasks, each in one profile, and what share of them each node asks.

    settings, or an experiment ─▶ Universe        every task of the run, by full name, with its profile and weight
                                      │ mixture
    SWARM_MIXTURE, a peer's file ─────┴▶ Mixture  of one node, inside the universe

A mixture is a node's own choice of tasks before its first round. The questions themselves follow from the run: who
changed its mixture from round to round could choose among as many questions as there are tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Self

from msgspec import UNSET, UnsetType

from swarm.algo.sampling import Weighted
from swarm.config import Settings, variable
from swarm.config.task_table import KEY_OF_FILE, MOST_WEIGHT, WEIGHT, as_mixture, is_weight, newest, weights_of
from swarm.errors import ConfigError, ProtocolError
from swarm.spelling import did_you_mean, named
from swarm.tasks.definitions import FAMILY_OF_KEY, full_name, profile_of
from swarm.tasks.registry import NO_TASKS, Families, complete
from swarm.types import FIRST_FAMILY, Origin, full_task

Mixture = Weighted
"""Tasks by their full names, in the universe's order."""


@dataclass(frozen=True)
class Universe:
    profiles: Mapping[str, str]
    """Task, by its full name -> profile; in the order in which they are drawn from."""
    weights: Mapping[str, float]
    """Weights of all of them."""

    @classmethod
    def of(cls, tasks: Sequence[str], profile: str) -> Self:
        """Returns all tasks in one profile, drawn alike."""
        return cls(dict.fromkeys(tasks, profile), dict.fromkeys(tasks, 1.0))

    @property
    def mixture(self) -> Mixture:
        """Returns the mixture of a node that chose none of its own."""
        return Mixture.of(self.weights)

    def mixture_of(self, weights: Mapping[str, object]) -> Mixture:
        """Returns the mixture that somebody says. Raises ProtocolError (`outside_universe`)."""
        found: dict[str, float] = {}
        for task, weight in weights.items():
            if task not in self.profiles:
                raise ProtocolError("outside_universe", f"a mixture has the task {task!r:.80}, which the run does not")
            if not is_weight(weight):
                raise ProtocolError(
                    "outside_universe",
                    f"a mixture has weights above 0 to {MOST_WEIGHT:g}, got {weight!r:.40} of {task}",
                )
            found[task] = float(weight)
        if not weights:
            raise ProtocolError("outside_universe", "a mixture without a task")
        return Mixture.of({task: found[task] for task in self.profiles if task in found})

    def mixture_said(self, said: Mapping[str, float] | UnsetType) -> Mixture:
        """Returns the mixture that a registration or a file says, everybody's where it says none. Raises ProtocolError
        as mixture_of."""
        return self.mixture if said is UNSET else self.mixture_of(said)

    def has(self, origin: Origin) -> bool:
        """Tells whether a question is of a task of the run, as the run asks it."""
        return self.profiles.get(full_task(origin.family, origin.task)) == origin.profile


def completed(settings: Settings, folder: Path) -> Settings:
    """Returns the settings with a definition of every task that has one, as every node of the run needs it.

    Args:
        folder: what paths that are not absolute are relative to.

    Raises:
        ConfigError: a definition cannot be used, as far as that can be told without asking.
    """
    table = complete(settings.task_table or NO_TASKS, folder)
    known = _profile_tasks(settings, NO_TASKS)
    for task in settings.tasks or ():
        if "/" not in task and task not in known and _defined(task, table) is None:
            with suppress(ConfigError):  # that nobody knows it is said by who asks it: an experiment may have it
                table |= complete({task: newest({})}, folder)  # a dataset of the first family, at its defaults
    return replace(settings, task_table=table or None)


def universe_of(settings: Settings) -> Universe:
    """Returns the tasks that a run with these settings may ask, each with its profile and weight.

    Raises:
        ConfigError: it has no such task, or a family cannot be had.
    """
    table = settings.task_table or NO_TASKS
    known = _profile_tasks(settings, table)
    defined = {full_name(name, asked): name for name, asked in table.items()}
    if settings.tasks:
        chosen = [_chosen(settings, task, known, table) for task in settings.tasks]
    else:
        chosen = sorted(defined) or list(known)  # tables say the same in any order
    profiles = {
        task: profile_of(defined[task], table[defined[task]]) if task in defined else settings.profile
        for task in chosen
    }
    weights = {task: float(table[defined[task]].get(WEIGHT, 1)) if task in defined else 1.0 for task in chosen}
    return Universe(profiles, weights)


def own_mixture(settings: Settings, universe: Universe) -> Mixture | None:
    """Returns the mixture of one node; None: that of everybody.

    Raises:
        ConfigError: it is none of the universe's, or there are several.
    """
    if settings.mixture is None:
        return None
    if len(settings.mixture) != 1:
        raise ConfigError(
            f"{variable('mixture')}: a node has one mixture, got {', '.join(settings.mixture)}; "
            "`swarm up` deals out a list, and `a+b` is one mixture of two tasks"
        )
    names = {name.rpartition("/")[2]: name for name in universe.profiles}
    asked = weights_of(settings.mixture[0], variable("mixture"))
    by_full_name = {task if task in universe.profiles else names.get(task, task): w for task, w in asked.items()}
    for task in by_full_name:
        if task not in universe.profiles:
            raise ConfigError(
                f"{variable('mixture')} (mixture): the run has no task {task!r}"
                f"{did_you_mean(task, [*names, *universe.profiles])}; it has {named(universe.profiles)}"
            )
    found = universe.mixture_of(by_full_name)
    return None if found == universe.mixture else found


def check_tasks(settings: Settings) -> None:
    """Refuse tasks and mixtures that a run with these settings cannot ask. Raises ConfigError."""
    universe = universe_of(settings)
    for mixture in settings.mixture or ():
        own_mixture(replace(settings, mixture=(mixture,)), universe)


def refuse_unknown_tasks(settings: Settings) -> None:
    """Refuses tasks that there are nowhere, for a node that may yet join an experiment. Raises ConfigError."""
    table = settings.task_table or NO_TASKS
    families = Families(settings.task_families, table)
    known = dict.fromkeys(chain(*families.profiles().values()))
    for task in settings.tasks or ():
        if task not in known and _defined(task, table) is None and task.partition("/")[0] not in FAMILY_OF_KEY.values():
            raise ConfigError(
                f"{variable('tasks')} (tasks): no profile has a task {task!r}; there are {', '.join(known)}"
            )


def mixture_text(mixture: Mixture) -> str:
    """Returns the mixture as people write it."""
    return as_mixture(mixture.weights)


def _profile_tasks(settings: Settings, table: Mapping[str, Mapping[str, object]]) -> tuple[str, ...]:
    return Families(settings.task_families, table).profiles().get(settings.profile, ())


def _chosen(settings: Settings, task: str, known: tuple[str, ...], table: Mapping[str, Mapping[str, object]]) -> str:
    """Returns a task that the settings name, by its full name; what the run defines counts above what a family has."""
    if (name := _defined(task, table)) is not None:
        return full_name(name, table[name])
    if task not in known:
        every = [*known, *(full_name(name, asked) for name, asked in table.items())]
        raise ConfigError(
            f"{variable('tasks')} (tasks): profile {settings.profile!r} has no task {task!r}"
            f"{did_you_mean(task, every)}; it has {named(every)}{_why_neither(task)}"
        )
    return task


def _why_neither(task: str) -> str:
    """Returns why a name is neither a file of questions nor a dataset."""
    family, _, name = task.partition("/")
    if name and family in {*KEY_OF_FILE.values()}:
        ending = next(ending for ending, key in KEY_OF_FILE.items() if key == family)
        return f"; the questions of a file are named by the file, such as {name}{ending}"
    if Path(task).suffix:
        return f"; a file of your own questions ends in {', '.join(KEY_OF_FILE)}"
    try:
        complete({task: newest({})}, Path())
    except ConfigError as error:
        return f"; and {error}"
    return ""


def _defined(task: str, table: Mapping[str, Mapping[str, object]]) -> str | None:
    """Returns the name in the table of a task that is called by it or by its full name."""
    family, _, name = task.rpartition("/")
    if name in table and full_name(name, table[name]) == full_task(family or FIRST_FAMILY, name):
        return name
    return task if task in table else None
