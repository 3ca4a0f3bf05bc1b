"""Seeded questions: one origin gives one question, in every process, so nobody has to trust a peer's ground truth.

    Origin (task, profile, seed, index, gym version) ──reasoning-gym──▶ Question, raw score of an answer

Scoring here is a plain call into reasoning-gym, which evaluates some answers as code. It must therefore run only inside
the bounded children of `swarm.tasks.scoring_server`, or on answers that this process wrote itself.
"""

from __future__ import annotations

import contextlib
import decimal
import functools
import importlib.metadata
import io
from collections.abc import Iterator
from typing import Any

from swarm.errors import ProtocolError
from swarm.tasks.profiles import PROFILES
from swarm.types import Origin, Question

GYM_SEED_LIMIT = 2**31
"""Seeds are 0 <= seed < GYM_SEED_LIMIT."""
INDEX_LIMIT = 2**20
"""Indices are 0 <= index < INDEX_LIMIT."""


@functools.cache
def gym_version() -> str:
    """Version of the installed reasoning-gym, read from its metadata (importing it costs more than a second)."""
    return importlib.metadata.version("reasoning-gym")


def make_question(task: str, profile: str, seed: int, index: int = 0) -> Question:
    """Generate one question.

    Raises:
        ProtocolError: unknown profile or task (`unknown_task`), seed or index out of range (`bad_origin`).
    """
    entry = _dataset(task, profile, seed, index)[1]
    return Question(
        prompt=entry["question"],
        origin=Origin(task, profile, seed, index, gym_version()),
        answer=entry["answer"],
        metadata=entry["metadata"],
    )


def regenerate(origin: Origin) -> Question:
    """Generate the question that a peer names by its origin.

    Raises:
        ProtocolError: as make_question, and `gym_version` where the peer's reasoning-gym is another version than ours.
    """
    if origin.gym_version != gym_version():
        raise ProtocolError(
            "gym_version",
            f"question of reasoning-gym {origin.gym_version!r} cannot be regenerated with {gym_version()!r}; "
            "install the same version on all nodes",
        )
    return make_question(origin.task, origin.profile, origin.seed, origin.index)


def score(question: Question, answer: str) -> float:
    """reasoning-gym's raw score of an answer to a question; not bounded in time, range or side effects.

    Raises:
        ProtocolError: the question has no origin, or one that is not valid.
        Exception: whatever the task's own scorer raises on odd input.
    """
    origin = question.known_origin()
    dataset, entry = _dataset(origin.task, origin.profile, origin.seed, origin.index)
    with _quiet():
        return float(dataset.score_answer(answer, entry))


@functools.lru_cache(maxsize=16, typed=True)
def _dataset(task: str, profile: str, seed: int, index: int) -> tuple[Any, dict[str, Any]]:
    """The reasoning-gym dataset that holds the question, and the question's entry in it; kept for its G answers."""
    config = _config(task, profile)
    _check_range("seed", seed, GYM_SEED_LIMIT)
    _check_range("index", index, INDEX_LIMIT)
    from reasoning_gym import create_dataset  # more than a second: only who asks pays

    with _quiet():
        dataset = create_dataset(task, seed=seed, size=index + 1, **config)
        return dataset, dataset[index]


def _config(task: str, profile: str) -> dict[str, object]:
    """The task's settings at a profile. Raises ProtocolError if there is none."""
    if profile not in PROFILES:
        raise ProtocolError("unknown_task", f"profile must be one of {', '.join(PROFILES)}, got {profile!r}")
    if task not in PROFILES[profile]:
        raise ProtocolError("unknown_task", f"task must be one of {', '.join(PROFILES[profile])}, got {task!r}")
    return PROFILES[profile][task]


def _check_range(name: str, value: int, limit: int) -> None:
    if not (type(value) is int and 0 <= value < limit):
        raise ProtocolError("bad_origin", f"{name} must be an integer in 0 <= {name} < {limit}, got {value!r}")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Swallow the progress dots that some tasks print, and keep the decimal precision that others set to themselves."""
    with contextlib.redirect_stdout(io.StringIO()), decimal.localcontext():
        yield
