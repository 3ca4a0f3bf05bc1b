"""Name, version and profiles of the Python family, and how a settings file's table is completed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swarm.config.own_code import respelt
from swarm.tasks.definitions import Parameters, malformed, refuse_other
from swarm.tasks.family import Behaviour, DefinedTasks
from swarm.tasks.python import DIGEST, FAMILY, FILE, VERSION


class PythonTasks(DefinedTasks):
    name = FAMILY
    version = VERSION
    """Version of how a file is used: the file's own digest is in the profile."""
    packages = ()

    def __init__(self, tasks: Mapping[str, Parameters] | None = None) -> None:
        """Raises ConfigError: a definition has no digest."""
        super().__init__(tasks)
        for name, parameters in self._tasks.items():
            if not isinstance(parameters.get(DIGEST), str):
                raise malformed(name, "no sha256; swarm.tasks.registry.complete adds it")

    def behaviour(self) -> Behaviour:
        from swarm.tasks.python.questions import PythonQuestions

        return PythonQuestions(self._tasks)

    def complete(self, name: str, parameters: Parameters, folder: Path) -> dict[str, Any]:
        """Returns the parameters with an absolute path and the file's digest; the file is read, not imported."""
        from swarm.tasks.python.questions import digest_of, read

        path = (folder / Path(parameters[FILE]).expanduser()).absolute()
        digest = digest_of(read(name, path))
        refuse_other(name, str(path), parameters.get(DIGEST, digest), digest)
        return {**parameters, FILE: respelt(parameters[FILE], str(path)), DIGEST: digest}


PYTHON = PythonTasks()
