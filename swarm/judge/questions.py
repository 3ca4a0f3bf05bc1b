"""Held-out questions, one per round and node: a function of the experiment's seed, the node and the round.

So a judge that was restarted asks and scores what it would have, nothing about an answer has to be remembered, and runs
with the same seed are asked the same. (A node that set out to cheat could work its question out from the seed, too:
this measures learning, it does not police.)

The tasks come evenly: of as many rounds as there are tasks, a node is asked each once, in an order of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from swarm.algo.seeds import derive_random, held_out_seed
from swarm.config import Settings
from swarm.config.revising import revising
from swarm.config.sources import parse
from swarm.errors import ConfigError, ExperimentError
from swarm.harmless import quoted
from swarm.judge.judge_machine import Slot
from swarm.tasks.family import QuestionRequest
from swarm.tasks.universe import universe_of
from swarm.wire.messages import ExperimentFile


@dataclass(frozen=True)
class HeldOutQuestions:
    """All questions of one experiment."""

    seed: int
    profiles: Mapping[str, str]
    """Task, by its full name -> profile."""

    def request(self, slot: Slot) -> QuestionRequest:
        seed = held_out_seed(self.seed, "held-out", slot.node, slot.round)
        task = self._task(slot)
        return QuestionRequest.named(task, self.profiles[task], seed)

    def question_id(self, slot: Slot) -> str:
        """16 hex digits; from the slot alone, so that they say nothing about the question."""
        text = f"{self.seed}\x1f{slot.node}\x1f{slot.round}"
        return hashlib.blake2b(text.encode(), digest_size=8, person=b"held-out").hexdigest()

    def _task(self, slot: Slot) -> str:
        cycle, position = divmod(slot.round, len(self.profiles))
        order = list(self.profiles)
        derive_random(self.seed, "held-out tasks", slot.node, cycle).shuffle(order)
        return order[position]


def with_stages_of(experiment: ExperimentFile, settings: Settings) -> Settings:
    """Returns the settings with the profile and stages that an experiment says. Raises ExperimentError: none that can
    be."""
    names = ("profile", "max_stages", "revise")
    said = {name: experiment.identity[name] for name in names if experiment.identity.get(name) is not None}
    try:
        found = replace(settings, **{name: parse(name, value, "experiment.json") for name, value in said.items()})
        revising(found.revise, found.profile)
    except ConfigError as error:
        raise ExperimentError(f"the experiment's stages cannot be asked: {error}") from None
    return found


def questions_of(experiment: ExperimentFile, settings: Settings) -> HeldOutQuestions:
    """Returns the held-out questions of an experiment, by what it says about itself.

    Args:
        settings: of the judge; with the files of the experiment's own tasks on this machine, if it has any.

    Raises:
        ExperimentError: it says no seed, or tasks that the families do not have.
    """
    seed, profile, tasks = (experiment.identity.get(name) for name in ("seed", "profile", "tasks"))
    try:
        if not isinstance(tasks, list | None):
            raise ConfigError(f"tasks: expected a list, got {quoted(tasks)}")
        said = {"seed": seed, "profile": profile} | ({"tasks": tasks} if tasks else {})
        parsed = {name: parse(name, value, "experiment.json") for name, value in said.items()}
        universe = universe_of(replace(settings, **{"tasks": None, **parsed}))
    except ConfigError as error:
        raise ExperimentError(
            f"experiment.json of {experiment.experiment_name!r}: expected a seed, a profile and tasks of it, got seed "
            f"{seed!r:.80}, profile {profile!r:.80}, tasks {tasks!r:.200} ({error}); judge it with the version that "
            "made it"
        ) from None
    return HeldOutQuestions(int(parsed["seed"]), universe.profiles)
