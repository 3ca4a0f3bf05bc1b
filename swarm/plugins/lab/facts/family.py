"""Name, version and profiles of the family of bare facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swarm.plugins.lab.facts.tables import FAMILY, TABLES
from swarm.tasks.family import Behaviour

PROFILES = ("tiny-3", "tiny-2", "tiny", "paper-2", "paper")
"""A fact has one difficulty."""


class FactTables:
    """The family of the tables; see swarm.tasks.family."""

    name = FAMILY
    version = "1"
    packages = ()

    def profiles(self) -> Mapping[str, Sequence[str]]:
        """Returns a task per table, the same in all."""
        return dict.fromkeys(PROFILES, TABLES)

    def behaviour(self) -> Behaviour:
        """See swarm.plugins.lab.facts.questions."""
        from swarm.plugins.lab.facts import questions

        return questions


FACTS = FactTables()
"""The family, by which settings choose it: SWARM_TASK_FAMILIES=facts."""
