"""Entries of reasoning-gym's datasets, and making a process ready for them."""

from __future__ import annotations

import contextlib
import copy
import functools
import random
from collections.abc import Iterable
from typing import Any

import msgspec

from swarm.tasks.family import SEED_LIMIT
from swarm.tasks.gym import strict, strict_datasets
from swarm.tasks.gym.disarm import disarm, keep_files
from swarm.tasks.gym.imports import import_datasets, make_sympy_ready
from swarm.tasks.gym.questions import quiet

SEEDS_TRIED, MORE_SEEDS_TRIED = 16, 256
"""The second where questions without meaning are drawn again, as 19 of 20 of string_insertion are."""
SEED_STEP = 1_000_003
STRICT = 2
"""The first scoring that pays for right answers alone; see swarm.tasks.gym.strict_datasets."""
Entry = tuple[Any, dict[str, Any]]
"""A dataset, and the entry in it that is asked."""


class GymDefinition(msgspec.Struct, frozen=True):
    """A task as the library knows it."""

    name: str
    dataset: str
    options: dict[str, Any]
    scoring: int = 1
    """1: the library's own rewards; STRICT: 1 for a right answer, 0 for any other."""


def entry(definition: GymDefinition, seed: int, index: int = 0) -> Entry:
    """Returns the entry that a seed gives.

    Where its generator raises, as some do for one seed in a thousand, another seed's, the same on every node; in a
    strict scoring also where the question has no meaning.
    """
    for attempt in range(MORE_SEEDS_TRIED if definition.scoring >= STRICT else SEEDS_TRIED):
        try:
            return _entry(definition, (seed + attempt * SEED_STEP) % SEED_LIMIT, index)
        except (MemoryError, RecursionError):  # of this process, not of the seed
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: whatever a generator raises
            failure = error
    raise failure


def _entry(definition: GymDefinition, seed: int, index: int) -> Entry:
    from reasoning_gym import create_dataset

    random.seed(seed)  # list_functions draws from the state of the process
    rounded = definition.scoring >= STRICT and definition.dataset == "decimal_arithmetic"
    with quiet(), strict.rounding() if rounded else contextlib.nullcontext():
        dataset = create_dataset(definition.dataset, seed=seed, size=index + 1, **definition.options)
        made = dataset, dataset[index]
    if definition.scoring < STRICT:
        return made
    tried = dataset, copy.deepcopy(made[1])  # knight_swap's scorer writes into it
    asked = strict_datasets.asked(definition.dataset, made[1], seed, functools.partial(_raw, tried))
    if asked is None:
        raise ValueError("the question has no meaning: its own key earns nothing, or any text is right to it")
    return dataset, asked


def score(definition: GymDefinition, made: Entry, answer: str) -> float:
    """Returns the reward of an answer, by the definition's scoring. Raises whatever the dataset's own scorer raises."""
    if definition.scoring < STRICT:
        return _raw(made, answer)
    return float(strict_datasets.is_right(definition.dataset, made[1], answer, functools.partial(_raw, made)))


def _raw(made: Entry, answer: str) -> float:
    """Returns the dataset's own score."""
    with quiet():
        return float(made[0].score_answer(answer, made[1]))


def get_ready(datasets: Iterable[str]) -> None:
    """Import these datasets, what they import and read when they are used first, and make them safe."""
    datasets = sorted(set(datasets))
    import_datasets(datasets)
    keep_files()
    disarm()
    for dataset in datasets:
        _use(GymDefinition(dataset, dataset, {}))
    make_sympy_ready()
    disarm()  # what the first use has imported


def _use(definition: GymDefinition) -> None:
    """Once, at the library's own sizes, which can do no harm."""
    with contextlib.suppress(Exception):
        made = _entry(definition, 0, 0)
        for answer in (made[1]["answer"] or "", "1"):
            with contextlib.suppress(Exception):
                score(definition, made, answer)
