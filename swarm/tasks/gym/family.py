"""Name, version and profiles of the reasoning-gym family, without importing reasoning-gym."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from swarm.tasks.family import Behaviour
from swarm.tasks.gym.profiles import PROFILES
from swarm.types import FIRST_FAMILY


class ReasoningGym:
    """The family of the nine tasks; see swarm.tasks.family."""

    name = FIRST_FAMILY
    packages = (FIRST_FAMILY,)

    @functools.cached_property
    def version(self) -> str:
        """Of the installed package, from its metadata."""
        import importlib.metadata  # imports the half of `email`

        return importlib.metadata.version(FIRST_FAMILY)

    def profiles(self) -> Mapping[str, Sequence[str]]:
        """Each with all nine tasks."""
        return {profile: tuple(tasks) for profile, tasks in PROFILES.items()}

    def behaviour(self) -> Behaviour:
        """See swarm.tasks.gym.questions."""
        from swarm.tasks.gym import questions

        return questions


GYM = ReasoningGym()
