"""Questions of the tasks that a run defines, of any dataset of reasoning-gym, besides those of the nine.

definition ──names.check──▶ dataset ──entries.get_ready──▶ configuration ──first_questions.check──▶ served
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from swarm.spelling import did_you_mean, named
from swarm.tasks.definitions import Parameters, is_defined, malformed
from swarm.tasks.gym import entries, first_questions, names, questions
from swarm.tasks.gym.entries import Entry, GymDefinition
from swarm.tasks.gym.names import LEVEL, OF_THE_ORIGIN, OWN_KEYS, dataset_of
from swarm.tasks.gym.plain import plain
from swarm.types import Origin, Question

CAN_BE_RIGHT: dict[str, Callable[[str, dict[str, Any]], bool]] = {
    "complex_arithmetic": lambda answer, _entry: "nan" not in answer.lower(),
    "game_of_life_halting": lambda answer, entry: answer.strip().lower() == entry["answer"].lower(),
    "puzzle24": lambda answer, entry: _numbers(answer) == sorted(entry["metadata"]["numbers"]),
}
"""Dataset -> whether an answer to an entry is scored at all in the first scoring, where the library pays in full for
wrong ones.

That is for `nan`, from which no number differs; for any text, as none is false; for 24 out of any four numbers.
"""


def _numbers(answer: str) -> list[int]:
    return sorted(map(int, re.findall(r"[0-9]{1,9}", answer)))


class DefinedQuestions:
    """A Behaviour."""

    def __init__(self, tasks: Mapping[str, Parameters]) -> None:
        self._tasks = tasks
        self._definition = functools.cache(self._defined)
        self._kept = functools.lru_cache(maxsize=16)(self._found)
        self._server: int | None = None
        """The process that children are forked from, which keeps nothing of sizes that a stranger chose."""

    def prepare(self) -> None:
        """Gets the datasets ready, the nine and those of the run's tasks. Raises ConfigError: one of them cannot be
        asked."""
        self._server = os.getpid()
        questions.prepare()
        for name, parameters in self._tasks.items():
            names.check(name, parameters)
        entries.get_ready(names.dataset_of(name, parameters) for name, parameters in self._tasks.items())
        for name in self._tasks:
            first_questions.check(self._definition(name))

    def make(self, origin: Origin) -> Question:
        """Returns the question of an origin."""
        if not is_defined(origin.profile):
            return questions.make(origin)
        entry = self._entry(origin)[1]
        return Question(entry["question"], origin, entry["answer"], plain(entry["metadata"]))

    def score(self, question: Question, answer: str) -> float:
        """Returns the reward by the definition's scoring: 1 or 0, or reasoning-gym's raw score, but for CAN_BE_RIGHT.

        Raises what the dataset's own scorer raises on odd input.
        """
        origin = question.known_origin()
        if not is_defined(origin.profile):
            return questions.score(question, answer)
        entry, definition = self._entry(origin), self._definition(origin.task)
        can_be_right = CAN_BE_RIGHT.get(definition.dataset) if definition.scoring < entries.STRICT else None
        if can_be_right and not can_be_right(answer, entry[1]):
            return 0.0
        return entries.score(definition, entry, answer)

    def _entry(self, origin: Origin) -> Entry:
        return self._found(origin) if os.getpid() == self._server else self._kept(origin)

    def _found(self, origin: Origin) -> Entry:
        return entries.entry(self._definition(origin.task), origin.seed, origin.index)

    def _defined(self, name: str) -> GymDefinition:
        parameters = self._tasks[name]
        dataset, scoring = names.dataset_of(name, parameters), names.scoring_of(name, parameters)
        return GymDefinition(name, dataset, configuration(name, parameters), scoring)


def configuration(name: str, parameters: Parameters) -> dict[str, Any]:
    """Keyword arguments for `create_dataset`; the dataset's module has been imported. Raises ConfigError."""
    from reasoning_gym.factory import CURRICULA, DATASETS

    dataset = dataset_of(name, parameters)
    config_class = DATASETS[dataset][1]
    of_level = _of_level(name, CURRICULA.get(dataset), parameters[LEVEL]) if LEVEL in parameters else {}
    own = {key: value for key, value in parameters.items() if key not in OWN_KEYS}
    return of_level | _converted(name, config_class, own)


def _of_level(name: str, curriculum_class: Any, level: int) -> dict[str, Any]:
    if curriculum_class is None:
        raise malformed(name, f"this dataset has no difficulty levels; leave {LEVEL!r} out")
    curriculum = curriculum_class()
    highest = max((len(attribute.levels) for attribute in curriculum.attributes.values()), default=1) - 1
    if level > highest:
        raise malformed(name, f"{LEVEL} must be a whole number from 0 to {highest} for this dataset, got {level}")
    curriculum.set_global_level(level)
    config = curriculum.generate_configuration()
    return {key: value for key, value in _fields(type(config), config).items() if key not in OF_THE_ORIGIN}


def _fields(config_class: type, config: Any) -> dict[str, Any]:
    return {field.name: getattr(config, field.name) for field in dataclasses.fields(config_class) if field.init}


def _converted(name: str, config_class: Any, own: Parameters) -> dict[str, Any]:
    types = typing.get_type_hints(config_class)
    known = [field.name for field in dataclasses.fields(config_class) if field.init and field.name not in OF_THE_ORIGIN]
    for key in own:
        if key not in known:
            otherwise = f"; it has {named([*known, LEVEL])}"
            raise malformed(name, f"unknown parameter {key!r:.80}{did_you_mean(key, [*known, LEVEL], otherwise)}")
    return {key: _one(name, key, value, types[key]) for key, value in own.items()}


def _one(name: str, key: str, value: Any, type_: Any) -> Any:
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        problem = str(error).replace("`", "").partition(" - at ")[0]
        raise malformed(name, f"{key}: {problem[0].lower()}{problem[1:]}, namely {value!r:.80}") from None
    except TypeError:  # a type of the library's own that msgspec does not know: its validation has to do
        return value
