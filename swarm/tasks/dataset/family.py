"""Name, version and profiles of the dataset family, and how a settings file's table is completed."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from swarm.config.task_table import FITTING
from swarm.extras import lacking
from swarm.tasks.dataset.definition import DatasetDefinition, read_definition
from swarm.tasks.dataset.scorers import CUSTOM, SCORERS
from swarm.tasks.definitions import Parameters, malformed, refuse_other
from swarm.tasks.family import Behaviour, DefinedTasks

FAMILY = "dataset"
SCORERS_VERSION = "1"
"""Version of all that makes a question of a row and a reward of an answer: the rows' own is in the profile."""


class Datasets(DefinedTasks):
    name = FAMILY

    def __init__(self, tasks: Mapping[str, Parameters] | None = None) -> None:
        """Raises ConfigError: a task's parameters cannot be, or a library is missing."""
        super().__init__(tasks)
        self._definitions = {name: read_definition(name, parameters) for name, parameters in self._tasks.items()}
        self._versions = dict(chain.from_iterable(map(_installed, self._definitions.values())))
        for definition in self._definitions.values():
            if not definition.sha256:
                raise malformed(definition.name, "no sha256; swarm.tasks.registry.complete adds it")

    @property
    def version(self) -> str:
        """Returns the version of the scorers, and of the libraries that decide rewards."""
        return "+".join([SCORERS_VERSION, *(f"{name}-{version}" for name, version in sorted(self._versions.items()))])

    @property
    def packages(self) -> Sequence[str]:
        """Libraries that decide rewards."""
        return sorted(self._versions)

    @property
    def executing(self) -> Sequence[str]:
        """Tasks whose answers are executed; see swarm.tasks.trial."""
        return [name for name, definition in self._definitions.items() if definition.kind.executes]

    def behaviour(self) -> Behaviour:
        from swarm.tasks.dataset.questions import DatasetQuestions

        return DatasetQuestions(self._definitions)

    def complete(self, name: str, parameters: Parameters, folder: Path) -> dict[str, Any]:
        """Find the dataset, or fetch it, and hash it. Raises ConfigError.

        A table that has no digest yet is a new run's, which gets the scoring of this version.
        """
        from swarm.tasks.dataset import files, loading  # hashing is none of a command's that only looks

        path = (folder / Path(parameters["dataset"]).expanduser()).absolute()
        if not path.exists() and files.is_id(parameters["dataset"]):
            path = files.fetch(name, parameters["dataset"], parameters.get("config", ""))
        if parameters.get("scorer") == FITTING and "sha256" not in parameters:
            exact = {**parameters, "dataset": str(path), "scorer": "exact"}
            parameters = {**parameters, "scorer": loading.fitting(read_definition(name, exact))}
        scoring = SCORERS.get(str(parameters.get("scorer", "exact")), CUSTOM).scoring
        if scoring > 1 and "sha256" not in parameters:
            parameters = {"scoring": scoring, **parameters}
        completed = {**parameters, "dataset": str(path)}
        definition = read_definition(name, completed)
        digests = {"sha256": files.digest(definition)}
        if ":" in definition.scorer:
            from swarm.tasks.dataset.scorers import custom

            digests["scorer_sha256"] = custom.digest(name, definition.scorer)
        for key, got in digests.items():
            what = completed["dataset"] if key == "sha256" else definition.scorer
            refuse_other(name, what, parameters.get(key, got), got)
        return completed | digests


def _installed(definition: DatasetDefinition) -> Iterator[tuple[str, str]]:
    """Yields the scorer's libraries and their versions. Raises ConfigError."""
    kind = definition.kind
    for package in kind.packages:
        try:
            yield package, importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            raise lacking(f"the scorer {definition.scorer!r}", package, kind.extra) from None


DATASETS = Datasets()
