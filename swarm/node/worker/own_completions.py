"""A node's own completions of one round, as files: what it sampled, and what it published of them.

    completions/round_R/{node}.json   texts, token ids and log-probs as sampled; written first, for this node alone
    rollouts/round_R/...              the texts, for everybody

A node that comes back takes up what it had sampled: bit for bit, without sampling again. Where the first file is
missing (as in runs of earlier versions), damaged, or tells other texts than were published, the published ones count.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from msgspec import convert

from swarm.errors import ProtocolError, StoreError
from swarm.logs import get_logger
from swarm.node.base.context import NodeContext
from swarm.store.run import Run
from swarm.types import Completion, Question, RolloutGroup, RoundKey
from swarm.wire import keys
from swarm.wire.codec import decode, to_groups
from swarm.wire.messages import CompletionsFile, RolloutFile, SampledCompletion, SampledGroup

logger = get_logger(__name__)

LARGEST = 64 * 2**20
"""Bytes of a completions file; a token takes some 30."""


class Published(NamedTuple):
    """What this node's rollout file of a round holds."""

    groups: list[RolloutGroup]
    bytes: int


class Left(NamedTuple):
    """What a former life of this node left of a round."""

    published: Published | None
    sampled: CompletionsFile | None


def to_file(
    groups: Sequence[RolloutGroup], tokenizer: str, rounds_trained: int, *, ahead: bool
) -> CompletionsFile | None:
    """The completions of a round's own groups; None where their generator does not say what it sampled."""
    completions = [completion for group in groups for completion in group.completions]
    if not completions or any(c.token_ids is None or c.logprobs is None for c in completions):
        return None
    first = groups[0]
    return CompletionsFile(
        peer_id=first.peer_id,
        round=first.round,
        stage=first.stage,
        model=first.model,
        tokenizer=tokenizer,
        rounds_trained=rounds_trained,
        ahead=ahead,
        groups=[
            SampledGroup(
                prompt=group.question.prompt,
                completions=convert(group.completions, list[SampledCompletion], from_attributes=True),
            )
            for group in groups
        ],
    )


def to_own_groups(file: CompletionsFile, questions: Sequence[Question]) -> list[RolloutGroup] | None:
    """The groups that were sampled; None if they were not to these questions."""
    if [group.prompt for group in file.groups] != [question.prompt for question in questions]:
        return None
    return [
        RolloutGroup(
            file.peer_id,
            file.round,
            file.stage,
            slot,
            question,
            convert(group.completions, tuple[Completion, ...], from_attributes=True),
            file.model,
        )
        for slot, (question, group) in enumerate(zip(questions, file.groups, strict=True))
    ]


def what_is_left(ctx: NodeContext, key: RoundKey) -> Left:
    """Read both files, and see that they are on disk: a kill may have come between a write and its sync. Blocking."""
    return Left(_published(ctx, key), _completions(ctx, key))


def _published(ctx: NodeContext, key: RoundKey) -> Published | None:
    place = keys.rollout(key, ctx.node_id)
    try:
        data = ctx.run.get_checked(place, ctx.settings.max_file_bytes).data
        file = decode(data, RolloutFile, ctx.run.store.describe(place))
        groups = to_groups(file, ctx.node_id, key)
    except FileNotFoundError:
        return None
    except ProtocolError as error:  # nobody can have read it, so it may be replaced
        logger.warning("rollouts.unreadable", round=key.round, error=str(error))
        return None
    with suppress(StoreError):
        ctx.run.store.sync(place)
    return Published(groups, len(data))


def _completions(ctx: NodeContext, key: RoundKey) -> CompletionsFile | None:
    try:
        return read_completions(ctx.run, ctx.node_id, key)
    except FileNotFoundError:
        return None
    except ProtocolError as error:
        logger.warning("completions.unreadable", round=key.round, error=str(error))
        return None


def read_completions(run: Run, node: str, key: RoundKey) -> CompletionsFile:
    """What a node sampled for a round. Raises FileNotFoundError, and ProtocolError for what it cannot have written."""
    place = keys.completions(key.round, node)
    file = decode(run.get_checked(place, LARGEST).data, CompletionsFile, run.store.describe(place))
    if (file.peer_id, file.round, file.stage) != (node, *key):
        raise ProtocolError("misplaced", f"it says {file.peer_id!r}, round {file.round}, stage {file.stage}")
    if any(len(c.token_ids) != len(c.logprobs) for group in file.groups for c in group.completions):
        raise ProtocolError("ragged", "expected one log-prob per token")
    return file


def same_texts(sampled: Sequence[RolloutGroup], published: Sequence[RolloutGroup]) -> bool:
    """Whether these are the same answers to the same questions, slot by slot."""
    return [_text(group) for group in sampled] == [_text(group) for group in published]


def _text(group: RolloutGroup) -> tuple[object, ...]:
    answers = [(completion.text, completion.finished) for completion in group.completions]
    return group.slot, group.question.origin, group.question.prompt, answers
