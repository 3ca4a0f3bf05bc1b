"""The questions that a run assigns to each node: a function of the run and of nothing that the node could choose.

    (run seed, node, round, stage) ──▶ tasks      (run seed, node, round, stage, slot) ──▶ question seeds

So nobody has to remember what was asked, a node that comes back asks what it would have asked, and its peers can tell
whether it did: easy questions, copies, replays and forged names are all *other* questions than those drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

from swarm.algo.sampling import choose_tasks
from swarm.algo.seeds import derive_random, derive_seed
from swarm.tasks.family import QuestionRequest
from swarm.types import RoundKey

OTHERS_ARE_REFUSED = "peers refuse all groups of a node whose SEED, SWARM_TASKS or SWARM_PROFILE is not theirs"
"""What to tell a node that differs from its experiment; only peers with SWARM_ADMIT=regenerable take its groups."""


class AssignedQuestions:
    """The questions of one run."""

    def __init__(self, run_seed: int, tasks: Sequence[str], profile: str) -> None:
        self._run_seed = run_seed
        self._tasks = tuple(tasks)
        self.profile = profile

    def questions(self, node: str, key: RoundKey, count: int) -> list[QuestionRequest]:
        """Those of the first `count` slots of a stage; the first of many are the same as of few."""
        tasks = choose_tasks(self._tasks, count, derive_random(self._run_seed, "tasks", node, *key))
        return [
            QuestionRequest.named(task, self.profile, derive_seed(self._run_seed, "question", node, *key, slot))
            for slot, task in enumerate(tasks)
        ]
