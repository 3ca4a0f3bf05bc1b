"""Entries of reasoning-gym's datasets: drawn by a definition, scored, and a process made ready for them."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import decimal
import functools
import io
import random
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from swarm.spelling import did_you_mean, named
from swarm.tasks.definitions import Parameters, malformed
from swarm.tasks.family import SEED_LIMIT
from swarm.tasks.gym import strict
from swarm.tasks.gym.disarm import disarm, keep_files
from swarm.tasks.gym.imports import import_datasets, make_sympy_ready
from swarm.tasks.gym.names import LEVEL, OF_THE_ORIGIN, OWN_KEYS, dataset_of

SEED_STEP = 1_000_003
Entry = tuple[Any, dict[str, Any]]
"""A dataset, and the entry in it that is asked."""


class Scoring(NamedTuple):
    """Says which entries are asked, and what an answer to them is worth."""

    is_right: Callable[[str, dict[str, Any], str, strict.Raw], bool] | None = None
    """Dataset, entry, answer, the library's own score -> whether it earns 1, and not 0; None: the library's rewards."""
    asked: Callable[[str, dict[str, Any], strict.Seeds, strict.Raw], dict[str, Any] | None] | None = None
    """Dataset, entry, seeds, the library's own score -> the entry as it is asked; None: it has no meaning."""
    draws: int = 16
    """Seeds that are tried for an entry that can be asked."""


STRICT = Scoring(strict.is_right, strict.asked, 256)
"""Scoring of what a run defines; 19 of 20 questions of string_insertion have no meaning."""


class GymDefinition(NamedTuple):
    name: str
    dataset: str
    options: Mapping[str, Any]
    """Keyword arguments for `create_dataset`."""
    scoring: Scoring = STRICT


def entry(definition: GymDefinition, seed: int, index: int = 0) -> Entry:
    """Returns the entry that a seed gives.

    Where its generator raises, as some do for one seed in a thousand, another seed's, the same on every node; where
    the scoring asks for it also where the question has no meaning.
    """
    for attempt in range(definition.scoring.draws):
        try:
            return _entry(definition, strict.Seeds(seed, (seed + attempt * SEED_STEP) % SEED_LIMIT), index)
        except (MemoryError, RecursionError):  # of this process, not of the seed
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: whatever a generator raises
            failure = error
    raise failure


def _entry(definition: GymDefinition, seeds: strict.Seeds, index: int) -> Entry:
    from reasoning_gym import create_dataset  # more than a second: only who asks pays

    scoring = definition.scoring
    random.seed(seeds.tried)  # list_functions draws from the state of the process
    with quiet():
        if scoring.is_right and definition.dataset == "decimal_arithmetic":
            decimal.getcontext().rounding = decimal.ROUND_HALF_UP  # as its questions ask
        dataset = create_dataset(definition.dataset, seed=seeds.tried, size=index + 1, **definition.options)
        made = dataset[index]
    if not scoring.asked:
        return dataset, made
    tried = functools.cache(lambda: (dataset, copy.deepcopy(made)))  # knight_swap's scorer writes into it
    asked = scoring.asked(definition.dataset, made, seeds, lambda answer: _raw(tried(), answer))
    if asked is None:
        raise ValueError("the question has no meaning: its own key earns nothing, or any text is right to it")
    return dataset, asked


def score(definition: GymDefinition, made: Entry, answer: str) -> float:
    """Returns the reward of an answer, by the definition's scoring. Raises whatever the dataset's own scorer raises."""
    raw = functools.partial(_raw, made)
    if definition.scoring.is_right:
        return float(definition.scoring.is_right(definition.dataset, made[1], answer, raw))
    return raw(answer)


def _raw(made: Entry, answer: str) -> float:
    with quiet():
        return float(made[0].score_answer(answer, made[1]))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Swallow the progress dots that some tasks print, and keep the decimal precision that others set to themselves."""
    with contextlib.redirect_stdout(io.StringIO()), decimal.localcontext():
        yield


def get_ready(datasets: Iterable[str]) -> None:
    """Import these datasets, what they import and read when they are used first, and make them safe."""
    datasets = sorted(set(datasets))
    import_datasets(datasets)
    keep_files()
    disarm()
    for dataset in datasets:
        _use(GymDefinition(dataset, dataset, {}, Scoring()))
    make_sympy_ready()
    disarm()  # what the first use has imported


def _use(definition: GymDefinition) -> None:
    """Once, at the library's own sizes, which can do no harm."""
    with contextlib.suppress(Exception):
        made = entry(definition, 0)
        for answer in (made[1]["answer"] or "", "1"):
            with contextlib.suppress(Exception):
                score(definition, made, answer)


# ── definitions ─────────────────────────────────────────────────────────────────────────────────────────────────────
def definition_of(name: str, parameters: Parameters) -> GymDefinition:
    """Returns the definition that a table is; the dataset's module has been imported. Raises ConfigError."""
    from reasoning_gym.factory import CURRICULA, DATASETS

    dataset = dataset_of(name, parameters)
    of_level = _of_level(name, CURRICULA.get(dataset), parameters[LEVEL]) if LEVEL in parameters else {}
    own = {key: value for key, value in parameters.items() if key not in OWN_KEYS}
    return GymDefinition(name, dataset, of_level | _converted(name, DATASETS[dataset][1], own))


def _of_level(name: str, curriculum_class: Any, level: int) -> dict[str, Any]:
    if curriculum_class is None:
        raise malformed(name, f"this dataset has no difficulty levels; leave {LEVEL!r} out")
    curriculum = curriculum_class()
    highest = max((len(attribute.levels) for attribute in curriculum.attributes.values()), default=1) - 1
    if level > highest:
        raise malformed(name, f"{LEVEL} must be a whole number from 0 to {highest} for this dataset, got {level}")
    curriculum.set_global_level(level)
    config = curriculum.generate_configuration()
    return {key: getattr(config, key) for key in _fields(type(config))}


def _converted(name: str, config_class: type, own: Parameters) -> dict[str, Any]:
    types, known = typing.get_type_hints(config_class), _fields(config_class)
    for key in own:
        if key not in known:
            otherwise = f"; it has {named([*known, LEVEL])}"
            raise malformed(name, f"unknown parameter {key!r:.80}{did_you_mean(key, [*known, LEVEL], otherwise)}")
    return {key: _one(name, key, value, types[key]) for key, value in own.items()}


def _fields(config_class: type) -> list[str]:
    return [field.name for field in dataclasses.fields(config_class) if field.init and field.name not in OF_THE_ORIGIN]


def _one(name: str, key: str, value: Any, type_: Any) -> Any:
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        raise malformed(name, f"{key}: {error}, namely {value!r:.80}") from None
    except TypeError:  # a type of the library's own that msgspec does not know: its validation has to do
        return value


# ── metadata ────────────────────────────────────────────────────────────────────────────────────────────────────────
def plain(value: Any) -> Any:
    """Returns metadata as JSON has it: what datasets put there is numpy's, sets, tuples as keys, dates.

    Equal for equal values, in every process: nothing is written that names an address.
    """
    match value:
        case None | bool():
            return value
        case str():
            return str.__str__(value)  # without what a subclass adds: numpy.str_ is no text to who writes files
        case int():
            return int(value) if -(2**63) <= value < 2**64 else str(int(value))
        case float():
            return float(value)
        case Mapping():
            return {key if type(key) is str else str(plain(key)): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case set() | frozenset():
            return sorted((plain(item) for item in value), key=repr)
    listed = getattr(value, "tolist", None)  # numpy's
    if listed is not None:
        return plain(listed())
    text = str(value)
    return type(value).__name__ if " at 0x" in text else text
