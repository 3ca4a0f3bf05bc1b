"""The configuration of a defined task: what its level says, its own parameters above it, in the library's own types."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

import msgspec

from swarm.spelling import did_you_mean, named
from swarm.tasks.definitions import Parameters, malformed
from swarm.tasks.gym.names import LEVEL, OF_THE_ORIGIN, OWN_KEYS, dataset_of


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
