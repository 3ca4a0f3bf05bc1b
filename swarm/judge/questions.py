"""Held-out questions, one per round and node: a function of the experiment's seed, the node and the round.

So a judge that was restarted asks and scores what it would have, nothing about an answer has to be remembered, and runs
with the same seed are asked the same. (A node that set out to cheat could work its question out from the seed, too:
this measures learning, it does not police.)

The tasks come evenly: of as many rounds as there are tasks, a node is asked each once, in an order of its own.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from swarm.algo.seeds import derive_random, held_out_seed
from swarm.errors import ExperimentError
from swarm.judge.judge_machine import Slot
from swarm.tasks.family import QuestionRequest
from swarm.tasks.registry import Families
from swarm.wire.messages import ExperimentFile


@dataclass(frozen=True)
class HeldOutQuestions:
    """All questions of one experiment."""

    seed: int
    profile: str
    tasks: tuple[str, ...]
    """By their full names."""

    def request(self, slot: Slot) -> QuestionRequest:
        """What makes the question of one round and node."""
        seed = held_out_seed(self.seed, "held-out", slot.node, slot.round)
        return QuestionRequest.named(self._task(slot), self.profile, seed)

    def question_id(self, slot: Slot) -> str:
        """16 hex digits; from the slot alone, so that they say nothing about the question."""
        text = f"{self.seed}\x1f{slot.node}\x1f{slot.round}"
        return hashlib.blake2b(text.encode(), digest_size=8, person=b"held-out").hexdigest()

    def _task(self, slot: Slot) -> str:
        cycle, position = divmod(slot.round, len(self.tasks))
        order = list(self.tasks)
        derive_random(self.seed, "held-out tasks", slot.node, cycle).shuffle(order)
        return order[position]


def questions_of(experiment: ExperimentFile, families: Families) -> HeldOutQuestions:
    """The held-out questions of an experiment, by what it says about itself.

    Raises:
        ExperimentError: it says no seed, or tasks that the families do not have.
    """
    identity = experiment.identity
    seed, profile, tasks = (identity.get(name) for name in ("seed", "profile", "tasks"))
    profiles = families.profiles()
    known = list(profiles.get(str(profile), ()))
    chosen = tasks or known
    if not (isinstance(seed, int) and known and isinstance(chosen, list) and all(task in known for task in chosen)):
        raise ExperimentError(
            f"experiment.json of {experiment.experiment_name!r}: expected a seed, a profile of {', '.join(profiles)} "
            f"and tasks of it, got seed {seed!r}, profile {profile!r}, tasks {tasks!r}; judge it with the version that "
            f"made it"
        )
    return HeldOutQuestions(seed, str(profile), tuple(chosen))
