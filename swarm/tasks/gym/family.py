"""Name, version and profiles of the reasoning-gym family, without importing reasoning-gym."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from swarm.tasks.definitions import Parameters
from swarm.tasks.family import Behaviour, DefinedTasks
from swarm.tasks.gym import names
from swarm.tasks.gym.profiles import PROFILES
from swarm.types import FIRST_FAMILY


class ReasoningGym(DefinedTasks):
    """The family of the nine tasks, and of any other dataset that a run defines a task of; see swarm.tasks.family.

    The parameters of these are checked where they are asked first.
    """

    name = FIRST_FAMILY
    packages = (FIRST_FAMILY,)

    @functools.cached_property
    def version(self) -> str:
        import importlib.metadata  # imports the half of `email`

        return importlib.metadata.version(FIRST_FAMILY)

    def profiles(self) -> Mapping[str, Sequence[str]]:
        """Ours, each with all nine tasks, and those of the run's own tasks."""
        return {**{profile: tuple(tasks) for profile, tasks in PROFILES.items()}, **super().profiles()}

    def behaviour(self) -> Behaviour:
        from swarm.tasks.gym.questions import GymQuestions

        return GymQuestions(self._tasks)

    def complete(self, name: str, parameters: Parameters, folder: Path) -> dict[str, Any]:
        """Returns the definition as it is, if the installed version has its dataset. Raises ConfigError."""
        names.check(name, parameters)
        return dict(parameters)


GYM = ReasoningGym()
