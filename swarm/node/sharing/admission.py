"""Which questions a run assigns to whom (AssignedQuestions, Mixtures), and which groups of a peer come in (Admission).

Admission says which of a peer's groups may be scored at all, as far as the file tells before any work is done on it:
groups to the very questions that the run draws for that peer, round and slot, and no others.

Everything here follows from the file and the settings alone: no memory, and so no order of arrival, can change it.

AssignedQuestions are a function of the run, and of nothing that a node could choose.

    (run seed, node, round), mixture ──▶ tasks      (run seed, node, round, slot) ──▶ question seeds

In a run of several stages each round asks all nodes the same, so that peers' answers are answers to the own question;
every stage of it asks that again.

So nobody has to remember what was asked, a node that comes back asks what it would have asked, and its peers can tell
whether it did: easy questions, copies, replays and forged names are all *other* questions than those drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec import UnsetType

from swarm.algo.sampling import choose_tasks
from swarm.algo.seeds import derive_random, derive_seed
from swarm.config import Settings
from swarm.config.revising import revising
from swarm.errors import ProtocolError
from swarm.tasks.family import QuestionRequest
from swarm.tasks.revise import check_context
from swarm.tasks.universe import Mixture, Universe, mixture_text
from swarm.types import Completion, RolloutGroup, RoundKey

OTHERS_ARE_REFUSED = "peers refuse all groups of a node whose SEED, SWARM_TASKS or SWARM_PROFILE is not theirs"
"""What to tell a node that differs from its experiment."""


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

    def _hold(self, peer: str, mixture: Mixture) -> None:
        self._first[peer] = mixture
        if len(self._first) > MOST_MIXTURES:
            del self._first[next(iter(self._first))]


MOST_TEXT = 4 * 2**20
"""Characters of all responses of one file, with what was replied to them. What is informative of them stays in memory
for as long as its round."""
COMPLETIONS_OF_A_GROUP = 16
"""On average, of all groups that one peer's file may have."""
CHARACTERS_PER_TOKEN = 64
"""Four times the tokens of an own completion, which is what is trained on at most, of 16 characters each."""
USUAL_TOKENS = 256
"""Limit of the longest completion, where no setting says it: what models without a limit of their own get."""
NO_LICENCE = "none"
"""In SWARM_LICENCES: texts whose publisher names none."""


@dataclass(frozen=True)
class Admission:
    """The rules that a node's settings ask for."""

    settings: Settings
    assigned: AssignedQuestions

    def check_size(self, groups: Sequence[RolloutGroup]) -> None:
        """Raises ProtocolError (`oversized`) where scoring or keeping a file would cost more than any peer is worth."""
        completions = [completion for group in groups for completion in group.completions]
        _at_most(self.settings.limits.peer_groups, "groups", len(groups))
        _at_most(COMPLETIONS_OF_A_GROUP * self.settings.limits.peer_groups, "completions", len(completions))
        _at_most(MOST_TEXT, "characters of responses", sum(map(_characters, completions)))

    def refusals(
        self, peer: str, key: RoundKey, groups: Sequence[RolloutGroup], mixture: Mixture | None = None
    ) -> list[ProtocolError | None]:
        """Returns for each group of a peer's file why it may not come in; None for those that may.

        Args:
            mixture: of tasks, that the peer asks; None: that of everybody.
        """
        drawn = self._drawn(peer, key, groups, mixture)
        return [self._refusal(group, fits) for group, fits in zip(groups, drawn, strict=True)]

    def _drawn(self, peer: str, key: RoundKey, groups: Sequence[RolloutGroup], mixture: Mixture | None) -> list[bool]:
        most = self.settings.limits.peer_groups
        slots = [group.slot for group in groups if group.slot < most]  # strangers chose them
        questions = self.assigned.questions(peer, key, 1 + max(slots, default=-1), mixture)
        asked = [QuestionRequest.of(group.question.known_origin()) for group in groups]
        slotted = zip(groups, asked, strict=True)
        return [group.slot < len(questions) and one == questions[group.slot] for group, one in slotted]

    def _refusal(self, group: RolloutGroup, drawn: bool) -> ProtocolError | None:
        longest = max(len(text) for one in group.completions for text in one.texts)
        most = longest_completion(self.settings)
        if longest > most:
            detail = f"a completion of group {group.slot} has {longest} characters, this node takes {most}"
            return ProtocolError("too_long", f"{detail} (SWARM_COMPLETION_CHARACTERS)")
        if (taken := self.settings.terms.licences) and not _is_among(group.licence or NO_LICENCE, taken):
            said = group.licence or "no licence"
            detail = f"group {group.slot} is under {said!r}, this node takes {', '.join(taken)} (SWARM_LICENCES)"
            return ProtocolError("other_licence", detail)
        origin = group.question.known_origin()
        if origin.context:
            try:
                check_context(group, revising(self.settings.revise, self.settings.profile))
            except ProtocolError as error:
                return error.as_value()
        if drawn:
            return None
        profiles = self.assigned.universe.profiles
        if not self.assigned.universe.has(origin):
            asked = profiles.get(group.question.task)
            if asked is None and origin.profile in profiles.values():
                detail = f"group {group.slot} is of task {group.question.task!r:.80}, which the run does not ask"
                return ProtocolError("outside_universe", detail)
            expected = repr(asked) if asked else " or ".join(map(repr, sorted({*profiles.values()})))
            return ProtocolError(
                "other_profile", f"group {group.slot} is of profile {origin.profile!r:.40}, not {expected:.200}"
            )
        return ProtocolError(
            "not_drawn",
            f"group {group.slot} is not to the question that this run draws for {group.peer_id}, round {group.round}, "
            f"stage {group.stage}; nodes of one run need the same seed and tasks",
        )


def _characters(completion: Completion) -> int:
    return len(completion.text) + sum(len(turn.text) + len(turn.reply) for turn in completion.earlier)


def _is_among(licence: str, taken: Sequence[str]) -> bool:
    """SPDX ids are the same in any case."""
    return licence.casefold() in {name.casefold() for name in taken}


def _at_most(limit: int, what: str, got: int) -> None:
    if got > limit:
        raise ProtocolError("oversized", f"expected at most {limit} {what} of one peer and stage, got {got}")


def longest_completion(settings: Settings) -> int:
    """Characters of a completion that is taken."""
    return settings.limits.completion_characters or CHARACTERS_PER_TOKEN * (settings.max_new_tokens or USUAL_TOKENS)
