"""Questions of reasoning-gym from their origins, and its scores of answers.

reasoning-gym evaluates some answers as code. `score` must therefore run only in the bounded children of
`swarm.tasks.scoring_server`, which `prepare` has made safe, or on answers that this process wrote itself.
"""

from __future__ import annotations

import contextlib
import decimal
import functools
import io
from collections.abc import Iterator
from typing import Any

from swarm.tasks.family import SEED_LIMIT
from swarm.tasks.gym import meaning, strict, together
from swarm.tasks.gym.disarm import disarm
from swarm.tasks.gym.imports import import_datasets
from swarm.tasks.gym.profiles import DRAWN_AGAIN, PROFILES, SAPO_TASKS, STRICT
from swarm.types import Origin, Question

DRAWS, SEED_STEP = 64, 1_000_003
"""Seeds that are tried for a question with a meaning, and how far they are from each other. Two of three questions of
propositional_logic have none at worst."""


def prepare() -> None:
    """Import the nine tasks alone, and take away what executes strings."""
    import_datasets(SAPO_TASKS)
    disarm()


def make(origin: Origin) -> Question:
    """Returns the entry of the dataset that the origin names."""
    entry = _dataset(origin)[1]
    return Question(entry["question"], origin, entry["answer"], entry["metadata"])


def score(question: Question, answer: str) -> float:
    """reasoning-gym's raw score; in a strict profile 1 or 0. Raises what the task's own scorer raises on odd input."""
    origin = question.known_origin()
    is_strict = origin.profile in STRICT
    if is_strict and not strict.has_form(origin.task, answer):
        return 0.0
    dataset, entry = _dataset(origin)
    if origin.task == "propositional_logic" and origin.profile in DRAWN_AGAIN:
        premises, variables = entry["metadata"]["premises"], len(entry["metadata"]["variables"])
        return float(together.is_right(answer, premises, variables))
    with quiet():
        score: float = dataset.score_answer(answer, entry)
        return float(strict.is_right(origin.task, question.answer, answer, score)) if is_strict else score


@functools.lru_cache(maxsize=16)
def _dataset(origin: Origin) -> tuple[Any, dict[str, Any]]:
    """Returns the reasoning-gym dataset that holds the question, and the question's entry in it; kept for its G
    answers."""
    if origin.profile not in DRAWN_AGAIN:
        return _drawn(origin, origin.seed)
    for seed in range(origin.seed, origin.seed + DRAWS * SEED_STEP, SEED_STEP):
        dataset, entry = _drawn(origin, seed % SEED_LIMIT)
        if (asked := meaning.asked(origin, entry)) is not None:
            return dataset, asked
    raise ValueError(f"{DRAWS} questions of {origin.task} have no meaning, from seed {origin.seed} on")


def _drawn(origin: Origin, seed: int) -> tuple[Any, dict[str, Any]]:
    from reasoning_gym import create_dataset  # more than a second: only who asks pays

    config = PROFILES[origin.profile][origin.task]
    with quiet(), strict.rounding() if origin.profile in STRICT else contextlib.nullcontext():
        dataset = create_dataset(origin.task, seed=seed, size=origin.index + 1, **config)
        return dataset, dataset[origin.index]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Swallow the progress dots that some tasks print, and keep the decimal precision that others set to themselves."""
    with contextlib.redirect_stdout(io.StringIO()), decimal.localcontext():
        yield
