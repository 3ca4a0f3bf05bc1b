"""Admission: which of a peer's groups may be scored at all, as far as the file tells before any work is done on it.

    drawn        groups to the very questions that the run draws for that peer, round and slot
    regenerable  groups to any question that can be made anew
    unverified   these, and groups without origin, which are held against their publisher's own answer

Everything here follows from the file and the settings alone: no memory, and so no order of arrival, can change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swarm.config import Settings
from swarm.errors import ProtocolError
from swarm.node.sharing.assigned_questions import AssignedQuestions
from swarm.tasks.family import QuestionRequest
from swarm.types import RolloutGroup, RoundKey

MOST_TEXT = 4 * 2**20
"""Characters of all responses of one file. What is informative of them stays in memory for as long as its round."""
LONGEST_PROMPT = 2**16
"""Characters of a prompt that nobody can regenerate."""
CHARACTERS_PER_TOKEN = 64
"""Four times the tokens of an own completion, which is what is trained on at most, of 16 characters each."""
USUAL_TOKENS = 256
"""Of the longest completion, where no setting says it: what models without a limit of their own get."""


@dataclass(frozen=True)
class Admission:
    """The rules that a node's settings ask for."""

    settings: Settings
    assigned: AssignedQuestions

    def check_size(self, groups: Sequence[RolloutGroup]) -> None:
        """Raises ProtocolError (`oversized`) where scoring or keeping a file would cost more than any peer is worth."""
        completions = [completion for group in groups for completion in group.completions]
        _at_most(self.settings.peer_groups, "groups", len(groups))
        _at_most(self.settings.peer_completions, "completions", len(completions))
        _at_most(MOST_TEXT, "characters of responses", sum(len(completion.text) for completion in completions))

    def refusals(self, peer: str, key: RoundKey, groups: Sequence[RolloutGroup]) -> list[ProtocolError | None]:
        """Of each group of a peer's file for one stage why it may not come in, None for those that may."""
        drawn = self._drawn(peer, key, groups) if self.settings.admit == "drawn" else [True] * len(groups)
        return [self._refusal(group, fits) for group, fits in zip(groups, drawn, strict=True)]

    @property
    def longest_completion(self) -> int:
        """Characters."""
        settings = self.settings
        return settings.completion_characters or CHARACTERS_PER_TOKEN * (settings.max_new_tokens or USUAL_TOKENS)

    def is_drawn(self, group: RolloutGroup) -> bool:
        """Whether the run draws this question for this peer, round, stage and slot."""
        return self._drawn(group.peer_id, RoundKey(group.round, group.stage), [group])[0]

    def _drawn(self, peer: str, key: RoundKey, groups: Sequence[RolloutGroup]) -> list[bool]:
        slots = [group.slot for group in groups if group.slot < self.settings.peer_groups]  # strangers chose them
        questions = self.assigned.questions(peer, key, 1 + max(slots, default=-1))
        return [group.slot < len(questions) and _asked(group) == questions[group.slot] for group in groups]

    def _refusal(self, group: RolloutGroup, drawn: bool) -> ProtocolError | None:
        longest, most = max(len(completion.text) for completion in group.completions), self.longest_completion
        if longest > most:
            detail = f"a completion of group {group.slot} has {longest} characters, this node takes {most}"
            return ProtocolError("too_long", f"{detail} (SWARM_COMPLETION_CHARACTERS)")
        if not group.question.verifiable:
            return _unverifiable(group)
        if self.settings.admit != "drawn" or drawn:
            return None
        origin = group.question.origin
        if origin and origin.profile != self.assigned.profile:
            return ProtocolError(
                "other_profile",
                f"group {group.slot} is of profile {origin.profile!r:.40}, not {self.assigned.profile!r}",
            )
        return ProtocolError(
            "not_drawn",
            f"group {group.slot} is not to the question that this run draws for {group.peer_id}, round {group.round}, "
            f"stage {group.stage}; nodes of one run need the same seed and tasks",
        )


def _asked(group: RolloutGroup) -> QuestionRequest | None:
    origin = group.question.origin
    return QuestionRequest.of(origin) if origin else None


def _unverifiable(group: RolloutGroup) -> ProtocolError | None:
    """What a group without origin needs: an answer of its publisher, and a prompt of some sensible length."""
    if not (group.question.answer or "").strip():
        return ProtocolError("no_origin", f"group {group.slot} has neither an origin nor an answer to be held against")
    if len(group.question.prompt) > LONGEST_PROMPT:
        return ProtocolError("oversized", f"the prompt of group {group.slot} is above {LONGEST_PROMPT} characters")
    return None


def _at_most(limit: int, what: str, got: int) -> None:
    if got > limit:
        raise ProtocolError("oversized", f"expected at most {limit} {what} of one peer and stage, got {got}")
