"""The questions that a run assigns to each node: a function of the run and of nothing that the node could choose.

    (run seed, node, round), mixture ──▶ tasks      (run seed, node, round, slot) ──▶ question seeds

In a run of several stages each round asks all nodes the same, so that peers' answers are answers to the own question;
every stage of it asks that again.

So nobody has to remember what was asked, a node that comes back asks what it would have asked, and its peers can tell
whether it did: easy questions, copies, replays and forged names are all *other* questions than those drawn.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UnsetType

from swarm.algo.sampling import choose_tasks
from swarm.algo.seeds import derive_random, derive_seed
from swarm.config import Settings
from swarm.errors import ProtocolError
from swarm.tasks.family import QuestionRequest
from swarm.tasks.universe import Mixture, Universe, mixture_text
from swarm.types import RoundKey

OTHERS_ARE_REFUSED = "peers refuse all groups of a node whose SEED, SWARM_TASKS or SWARM_PROFILE is not theirs"
"""What to tell a node that differs from its experiment; only peers with SWARM_ADMIT=regenerable take its groups."""


class AssignedQuestions:
    """The questions of one run."""

    def __init__(self, run_seed: int, universe: Universe, stages: int = 1) -> None:
        self._run_seed = run_seed
        self.universe = universe
        self.same_for_all = stages > 1
        """All nodes of one mixture are asked the same in a round."""

    def questions(self, node: str, key: RoundKey, count: int, mixture: Mixture | None = None) -> list[QuestionRequest]:
        """Returns the questions of the first `count` slots of a stage, without context; those of a larger count begin
        alike.

        Args:
            mixture: the node's own; None: that of everybody.
        """
        purpose = ("of all nodes", key.round) if self.same_for_all else (node, *key)
        rng = derive_random(self._run_seed, "tasks", *purpose)
        return [
            QuestionRequest.named(
                task, self.universe.profiles[task], derive_seed(self._run_seed, "question", *purpose, slot)
            )
            for slot, task in enumerate(choose_tasks(mixture or self.universe.mixture, count, rng))
        ]


def questions_of(settings: Settings, universe: Universe) -> AssignedQuestions:
    """Makes the questions of a run with these settings."""
    return AssignedQuestions(settings.seed, universe, settings.max_stages)


MOST_MIXTURES = 8192
"""Peers of whom it is known; of more the first are forgotten."""


class Mixtures:
    """Which mixture of tasks each peer asks: the one that this node saw first of it holds for the run.

        registration ─▶ first seen ◀─ rollout file
                            │
                            ▼ another one: the file is refused (`other_mixture`)

    Who could change its mixture from round to round could choose, of each slot, among as many questions as the run has
    tasks. A file says its mixture itself, so that it is understood alone, by a reader that came later or redoes rounds.
    """

    def __init__(self, universe: Universe) -> None:
        self._universe = universe
        self._first: dict[str, Mixture] = {}

    def registered(self, peer: str, said: Mapping[str, float] | UnsetType) -> None:
        """Take note of a registration; of one outside of the universe the peer's files will tell."""
        if peer not in self._first:
            try:
                self._hold(peer, self._universe.mixture_said(said))
            except ProtocolError:
                return

    def of_file(self, peer: str, said: Mapping[str, float] | UnsetType) -> Mixture:
        """Returns the mixture of a peer's file. Raises ProtocolError: `outside_universe`, `other_mixture`."""
        mixture = self._universe.mixture_said(said)
        if peer not in self._first:
            self._hold(peer, mixture)
        if (first := self._first[peer]) != mixture:
            raise ProtocolError(
                "other_mixture",
                f"{peer} asks {mixture_text(mixture):.200}, after {mixture_text(first):.200}: a mixture is fixed for "
                "the run",
            )
        return mixture

    def known(self, peer: str) -> Mixture:
        """Returns the mixture that a peer asks, as far as it is known, else everybody's."""
        return self._first.get(peer, self._universe.mixture)

    def _hold(self, peer: str, mixture: Mixture) -> None:
        self._first[peer] = mixture
        if len(self._first) > MOST_MIXTURES:
            del self._first[next(iter(self._first))]
