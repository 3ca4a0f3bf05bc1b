"""Name, version and profiles of the Python family, and how a settings file's table is completed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from swarm.config.own_code import respelt
from swarm.tasks.definitions import Parameters, malformed, profile_of, refuse_other
from swarm.tasks.family import Behaviour, TaskFamily
from swarm.tasks.python import DIGEST, FAMILY, FILE, VERSION


class PythonTasks:
    """The family of some tasks; see swarm.tasks.family."""

    name = FAMILY
    version = VERSION
    """Version of how a file is used: the file's own digest is in the profile."""
    packages = ()

    def __init__(self, tasks: Mapping[str, Parameters] | None = None) -> None:
        """Raises ConfigError: a definition has no digest."""
        self._tasks = dict(tasks or {})
        for name, parameters in self._tasks.items():
            if not isinstance(parameters.get(DIGEST), str):
                raise malformed(name, "no sha256; swarm.tasks.registry.complete adds it")

    def profiles(self) -> Mapping[str, Sequence[str]]:
        """Returns each task in one of its own."""
        return {profile_of(name, parameters): (name,) for name, parameters in self._tasks.items()}

    def behaviour(self) -> Behaviour:
        """See swarm.tasks.python.questions."""
        from swarm.tasks.python.questions import PythonQuestions

        return PythonQuestions(self._tasks)

    def complete(self, name: str, parameters: Parameters, folder: Path) -> dict[str, Any]:
        """Returns the parameters with an absolute path and the file's digest; the file is read, not imported."""
        from swarm.tasks.python.questions import digest_of, read

        path = (folder / Path(parameters[FILE]).expanduser()).absolute()
        digest = digest_of(read(name, path))
        refuse_other(name, str(path), parameters.get(DIGEST, digest), digest)
        return {**parameters, FILE: respelt(parameters[FILE], str(path)), DIGEST: digest}

    def define(self, tasks: Mapping[str, Parameters]) -> TaskFamily:
        """This family with these tasks."""
        return PythonTasks({**self._tasks, **tasks})


PYTHON = PythonTasks()
