"""Questions of reasoning-gym from their origins, and their scores: the nine tasks in our profiles, and a run's own.

    origin ─▶ profile of ours ─▶ PROFILES ───────────────────────────────────────────────┐
           └▶ definition ──names.check──▶ dataset ──first_questions.check──▶ served ─────┴▶ GymDefinition ─▶ entry

reasoning-gym evaluates some answers as code. `score` must therefore run only in the bounded children of
`swarm.tasks.scoring_server`, which `prepare` has made safe, or on answers that this process wrote itself.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping

from swarm.tasks.definitions import Parameters, is_defined
from swarm.tasks.gym import entries, first_questions, names, strict, together
from swarm.tasks.gym.disarm import disarm
from swarm.tasks.gym.entries import Entry, GymDefinition, Scoring
from swarm.tasks.gym.imports import import_datasets
from swarm.tasks.gym.profiles import DRAWN_AGAIN, PROFILES, SAPO_TASKS, STRICT
from swarm.types import Origin, Question

DRAWS = 64
"""Two of three questions of propositional_logic have no meaning at worst."""


class GymQuestions:
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
        import_datasets(SAPO_TASKS)
        disarm()
        for name, parameters in self._tasks.items():
            names.check(name, parameters)
        if self._tasks:
            entries.get_ready(names.dataset_of(name, parameters) for name, parameters in self._tasks.items())
        for name, parameters in self._tasks.items():
            first_questions.check(entries.definition_of(name, parameters))

    def make(self, origin: Origin) -> Question:
        entry = self._entry(origin)[1]
        return Question(entry["question"], origin, entry["answer"], entries.plain(entry["metadata"]))

    def score(self, question: Question, answer: str) -> float:
        """Returns the reward by the definition's scoring. Raises what the dataset's own scorer raises on odd input."""
        origin = question.known_origin()
        return entries.score(self._definition(origin.profile, origin.task), self._entry(origin), answer)

    def _entry(self, origin: Origin) -> Entry:
        return self._found(origin) if os.getpid() == self._server else self._kept(origin)

    def _found(self, origin: Origin) -> Entry:
        return entries.entry(self._definition(origin.profile, origin.task), origin.seed, origin.index)

    def _defined(self, profile: str, task: str) -> GymDefinition:
        if is_defined(profile):
            return entries.definition_of(task, self._tasks[task])
        return GymDefinition(task, task, PROFILES[profile][task], _scoring(profile))


def _scoring(profile: str) -> Scoring:
    if profile not in STRICT:
        return Scoring()
    if profile not in DRAWN_AGAIN:
        return Scoring(strict.is_key)
    told = together.TOLD_BRIEFLY if profile.startswith("tiny") else together.TOLD

    def asked(task: str, entry: strict.Entry, seeds: strict.Seeds, _raw: strict.Raw) -> strict.Entry | None:
        return strict.with_meaning(task, entry, seeds.asked, told)

    return Scoring(strict.is_right, asked, DRAWS)
