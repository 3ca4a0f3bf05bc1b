"""Task families by name: one of ours, or `package.module:object` of the user's own.

Families are the ones that a node was started with; what a peer's file names is looked up among them and never imported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import cast

from swarm.errors import ConfigError, ProtocolError
from swarm.tasks.family import INDEX_LIMIT, SEED_LIMIT, Behaviour, QuestionRequest, TaskFamily
from swarm.types import FIRST_FAMILY, OTHER_VERSION, Origin, Question, full_task

FAMILIES: Mapping[str, str] = {FIRST_FAMILY: "swarm.tasks.gym.family:GYM"}
"""Ours, by name."""
SETTING = "SWARM_TASK_FAMILIES"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


class Families:
    """The families of one process: their questions, and what answers are worth."""

    def __init__(self, chosen: Sequence[str] = (FIRST_FAMILY,)) -> None:
        """Raises ConfigError where one of them cannot be had."""
        loaded = [_load(one) for one in chosen]
        self._families = {family.name: family for family in loaded}
        if len(self._families) < len(loaded):
            raise ConfigError(_because(f"two families of one name in {', '.join(chosen)}"))
        self._behaviours: dict[str, Behaviour] = {}

    @property
    def versions(self) -> dict[str, str]:
        """Family -> version."""
        return {name: family.version for name, family in self._families.items()}

    @property
    def packages(self) -> tuple[str, ...]:
        """Distributions on whose versions questions and rewards depend."""
        return tuple(dict.fromkeys(package for family in self._families.values() for package in family.packages))

    def profiles(self) -> dict[str, tuple[str, ...]]:
        """Profile -> the full names of all tasks, families in the order in which they were chosen."""
        found: dict[str, tuple[str, ...]] = {}
        for name, family in self._families.items():
            for profile, tasks in family.profiles().items():
                found[profile] = (*found.get(profile, ()), *(full_task(name, task) for task in tasks))
        return found

    def origin(self, request: QuestionRequest) -> Origin:
        """Where this process's question comes from. Raises ProtocolError (`unknown_family`)."""
        return request.origin(self._family(request.family).version)

    def prepare(self) -> None:
        """Make this process a scoring server: all is imported, and has been run once."""
        for name, family in self._families.items():
            self._behaviour(name).prepare()
            for profile, tasks in family.profiles().items():
                for task in tasks:
                    question = self.make(QuestionRequest(task, profile, 0, family=name))
                    self.score(question, question.answer or "")

    def make(self, request: QuestionRequest) -> Question:
        """Generate a question. Raises ProtocolError as `regenerate`."""
        return self.regenerate(self.origin(request))

    def regenerate(self, origin: Origin) -> Question:
        """Generate the question that an origin names.

        Raises:
            ProtocolError: `unknown_family`, `gym_version` (of any family: the peer's version is not ours),
                `unknown_task`, `bad_origin`.
        """
        family = self._family(origin.family)
        if origin.version != family.version:
            raise ProtocolError(
                OTHER_VERSION,
                f"question of {family.name} {origin.version!r} cannot be regenerated with {family.version!r}; "
                "install the same version on all nodes",
            )
        profiles = family.profiles()
        _check_known("profile", origin.profile, profiles)
        _check_known("task", origin.task, profiles[origin.profile])
        _check_range("seed", origin.seed, SEED_LIMIT)
        _check_range("index", origin.index, INDEX_LIMIT)
        return self._behaviour(origin.family).make(origin)

    def score(self, question: Question, answer: str) -> float:
        """The family's own reward for an answer to a question that `make` or `regenerate` gave, as it is.

        Raises:
            ProtocolError: the question has no origin.
            Exception: whatever the task's own scorer raises on odd input.
        """
        return float(self._behaviour(question.known_origin().family).score(question, answer))

    def _family(self, name: str) -> TaskFamily:
        if name not in self._families:
            raise ProtocolError(
                "unknown_family",
                f"family must be one of {', '.join(self._families)}, got {name!r:.80}; "
                f"nodes of one run need the same {SETTING}",
            )
        return self._families[name]

    def _behaviour(self, name: str) -> Behaviour:
        if name not in self._behaviours:
            self._behaviours[name] = self._families[name].behaviour()
        return self._behaviours[name]


def _load(chosen: str) -> TaskFamily:
    """One family. Its name is its own; only ours may have the names of ours."""
    module, _, attribute = FAMILIES.get(chosen, chosen).partition(":")
    try:
        family = cast(TaskFamily, getattr(import_module(module), attribute))
        name = family.name
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(_because(f"{chosen!r} cannot be had: {error}")) from None
    if not _NAME.fullmatch(name) or (name in FAMILIES and chosen != name):
        raise ConfigError(_because(f"{chosen!r} is called {name!r}, which no family of one's own may be"))
    return family


def _because(problem: str) -> str:
    return (
        f"{SETTING} (task_families): {problem}; name one of {', '.join(FAMILIES)}, or an object of a "
        f"module that this Python can import"
    )


def _check_known(what: str, value: str, known: Mapping[str, object] | Sequence[str]) -> None:
    if value not in known:
        raise ProtocolError("unknown_task", f"{what} must be one of {', '.join(known)}, got {value!r}")


def _check_range(name: str, value: int, limit: int) -> None:
    if not (type(value) is int and 0 <= value < limit):
        raise ProtocolError("bad_origin", f"{name} must be an integer in 0 <= {name} < {limit}, got {value!r}")
