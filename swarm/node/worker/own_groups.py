"""A node's own groups of one round: written by its policy, and found in the folder if it died after publishing them.

    questions ──policy──▶ written ──┐
                                    ├─▶ the same texts: written, which know their token ids
    folder, own file ──▶ published ─┘   others: published, for peers may have trained on them

What a policy writes is a function of its weights and of seed, node and round, so on a CPU a node that comes back writes
again what it had published. On a GPU it may not; then what was published stays, and is encoded anew from its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from swarm.algo.seeds import derive_seed
from swarm.config import Settings
from swarm.errors import ProtocolError
from swarm.logs import get_logger
from swarm.store.folder.fetch import read_bounded
from swarm.store.folder.publish import sync_folder
from swarm.types import Policy, Question, RolloutGroup, RoundKey
from swarm.wire.codec import decode, to_groups
from swarm.wire.layout import Layout
from swarm.wire.messages import RolloutFile

logger = get_logger(__name__)


class Published(NamedTuple):
    """What this node's file of a round holds."""

    groups: list[RolloutGroup]
    bytes: int


class OwnGroups:
    """Writes groups, and finds them again."""

    def __init__(self, settings: Settings, layout: Layout, node_id: str, policy: Policy) -> None:
        self._settings = settings
        self._layout = layout
        self._node_id = node_id
        self._policy = policy

    def write(self, key: RoundKey, questions: Sequence[Question]) -> list[RolloutGroup]:
        """G completions to each question, as the policy answers them now. Blocking, for the compute executor."""
        answers = self._policy.generate(
            [question.prompt for question in questions],
            group_size=self._settings.generations,
            seed=derive_seed(self._settings.seed, "generation", self._node_id, *key),
        )
        return [
            RolloutGroup(self._node_id, *key, slot, question, completions, self._policy.name)
            for slot, (question, completions) in enumerate(zip(questions, answers, strict=True))
        ]

    def published(self, key: RoundKey) -> Published | None:
        """What was published for this round; None where nothing was, or nothing that anybody can read. Blocking."""
        path = self._layout.rollout_file(key, self._node_id)
        try:
            data = read_bounded(path, self._settings.max_file_bytes)
            self._layout.trust.check(data, self._layout.key(path), self._node_id)
            sync_folder(path.parent)  # a kill may have come between the rename and its sync
            return Published(to_groups(decode(data, RolloutFile, str(path)), self._node_id, key), len(data))
        except FileNotFoundError:
            return None
        except ProtocolError as error:  # nobody can have read it, so it may be replaced
            logger.warning("rollouts.unreadable", round=key.round, error=str(error))
            return None


def same_texts(written: Sequence[RolloutGroup], published: Sequence[RolloutGroup]) -> bool:
    """Whether these are the same answers to the same questions, slot by slot."""
    return [_text(group) for group in written] == [_text(group) for group in published]


def _text(group: RolloutGroup) -> tuple[object, ...]:
    answers = [(completion.text, completion.finished) for completion in group.completions]
    return group.slot, group.question.origin, group.question.prompt, answers
