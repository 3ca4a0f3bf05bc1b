"""Name, version and profiles of the verifiers family, and how a settings file's table is completed."""

from __future__ import annotations

import importlib.metadata
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from swarm import forms
from swarm.children import module_command
from swarm.config.own_code import plain
from swarm.extras import lacking
from swarm.plugins.verifiers.definition import KEY, VerifiersDefinition, read_definition
from swarm.tasks.definitions import Parameters, malformed, profile_of
from swarm.tasks.family import Behaviour, TaskFamily

LIBRARY = "verifiers"
EXTRA = "verifiers"
ADAPTER_VERSION = "1"
"""Version of how an environment is played; its own package and rows are in the profile."""
LONGEST_LOOK_S = 600.0
"""Seconds for a child that imports an environment and loads its rows."""


class Told(msgspec.Struct):
    """Holds what __main__ says of an environment."""

    source_sha256: str = ""
    sha256: str = ""
    problem: str = ""


class VerifiersTasks:
    """The family of some tasks; see swarm.tasks.family."""

    name = KEY
    packages = (LIBRARY,)

    def __init__(self, tasks: Mapping[str, Parameters] | None = None) -> None:
        """Raises ConfigError: a task's parameters cannot be, or the library is missing."""
        self._tasks = dict(tasks or {})
        self._definitions = {name: read_definition(name, parameters) for name, parameters in self._tasks.items()}
        self._installed = _installed() if self._tasks else ""
        for definition in self._definitions.values():
            if not definition.known:
                raise malformed(definition.name, "no sha256; swarm.tasks.registry.complete adds it")

    @property
    def version(self) -> str:
        """Returns the version of how episodes are played, and of the library."""
        return f"{ADAPTER_VERSION}+{LIBRARY}-{self._installed}"

    def profiles(self) -> Mapping[str, Sequence[str]]:
        """Returns each task in one of its own."""
        return {profile_of(name, parameters): (name,) for name, parameters in self._tasks.items()}

    def behaviour(self) -> Behaviour:
        """See swarm.plugins.verifiers.questions."""
        from swarm.plugins.verifiers.questions import VerifiersQuestions

        return VerifiersQuestions(self._definitions)

    def complete(self, name: str, parameters: Parameters, _folder: Path) -> dict[str, Any]:
        """Returns the parameters with the digests of package and rows, which a child process finds where they are
        missing.

        Where they are there, scoring servers compare them.
        """
        definition = read_definition(name, parameters)
        _installed()
        if definition.known:
            return dict(parameters)
        told = _look(definition)
        digests = {"source_sha256": told.source_sha256, "sha256": told.sha256}
        return {**parameters, **{key: parameters.get(key, value) for key, value in digests.items()}}

    def define(self, tasks: Mapping[str, Parameters]) -> TaskFamily:
        """This family with these tasks."""
        return VerifiersTasks({**self._tasks, **tasks})


def _installed() -> str:
    try:
        return importlib.metadata.version(LIBRARY)
    except importlib.metadata.PackageNotFoundError:
        raise lacking("a task with the key `verifiers`", f"the library {LIBRARY}", EXTRA) from None


def _look(definition: VerifiersDefinition) -> Told:
    """Import the environment and load its rows, in a child as a scoring server is one. Raises ConfigError."""
    from swarm.tasks.scoring_process import server_environment  # with all that a node has, and a light command not

    command, asked = module_command(__package__), msgspec.json.encode(plain(msgspec.structs.asdict(definition)))
    try:
        ended = subprocess.run(
            command,
            input=asked,
            capture_output=True,
            env=server_environment(),
            timeout=LONGEST_LOOK_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise malformed(definition.name, f"its rows were not loaded within {LONGEST_LOOK_S:g} s; take fewer") from None
    try:
        told = forms.decode(ended.stdout, Told)
    except msgspec.MsgspecError:
        said = ended.stderr.decode(errors="replace").strip()[-300:]
        raise malformed(definition.name, f"{definition.id} ended the process that looked at it: {said}") from None
    if told.problem:
        raise malformed(definition.name, told.problem)
    return told


VERIFIERS = VerifiersTasks()
