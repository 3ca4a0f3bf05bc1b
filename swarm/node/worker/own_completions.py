"""A node's own completions of one round, as files: what it sampled, and what it published of them.

    completions/round_R/...           texts, token ids and log-probs as sampled; written first, for this node alone
    rollouts/round_R/...              the texts, for everybody; some groups perhaps before the others

A node that comes back takes up what it had sampled: bit for bit, without sampling again. Where the first file is
missing (as in runs of earlier versions), damaged, or tells other texts than were published, the published ones count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from msgspec import UNSET, convert
from msgspec.structs import replace

from swarm.errors import ProtocolError, StoreError
from swarm.logs import get_logger
from swarm.node.worker.context import OwnQuestion, WorkerContext
from swarm.store.run import Run
from swarm.types import Completion, RolloutGroup, RoundKey, Turn
from swarm.wire import keys
from swarm.wire.codec import decode, to_groups
from swarm.wire.group_files import digest, named_by, one_group, put_together
from swarm.wire.messages import CompletionsFile, RolloutFile, SampledCompletion, SampledGroup, SampledTurn

logger = get_logger(__name__)

LARGEST = 64 * 2**20
"""Bytes of a completions file; a token takes some 30."""


class _Published(NamedTuple):
    """Holds the contents of this node's rollout file of a round."""

    groups: list[RolloutGroup]
    bytes: int


class OneGroup(NamedTuple):
    """Holds one published group of a round whose others are not all there."""

    group: RolloutGroup
    sha256: str
    """SHA-256 of its file; empty for a group in the last file itself."""
    bytes: int


class LeftCompletions(NamedTuple):
    """Holds what a former life of this node left of a round."""

    published: _Published | None
    sampled: CompletionsFile | None
    some: Mapping[int, OneGroup] = {}
    """By slot, where not everything is published, or not any more."""
    named: Mapping[int, str] = {}
    """Slot -> SHA-256 of the groups that the last file names, of which one is not there any more."""


def to_file(
    groups: Sequence[RolloutGroup], tokenizer: str, rounds_trained: int, *, ahead: bool
) -> CompletionsFile | None:
    """Returns the completions of a round's own groups; None where their generator does not say what it sampled."""
    turns = [turn for group in groups for completion in group.completions for turn in completion.every_turn]
    if not turns or any(turn.token_ids is None or turn.logprobs is None for turn in turns):
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
                context=list(context) if (context := group.question.known_origin().context) else UNSET,
                completions=list(map(_sampled, group.completions)),
            )
            for group in groups
        ],
    )


def to_own_groups(file: CompletionsFile, questions: Sequence[OwnQuestion]) -> list[RolloutGroup] | None:
    """Returns the groups that were sampled; None if they were not to these questions."""
    if [group.prompt for group in file.groups] != [asked.question.prompt for asked in questions]:
        return None
    return [
        RolloutGroup(
            file.peer_id,
            file.round,
            file.stage,
            slot,
            question,
            tuple(map(_as_sampled, group.completions)),
            file.model,
        )
        for (slot, question), group in zip(questions, file.groups, strict=True)
    ]


def _sampled(completion: Completion) -> SampledCompletion:
    found = convert(completion, SampledCompletion, from_attributes=True)
    if completion.earlier:
        found.turns = convert(completion.earlier, list[SampledTurn], from_attributes=True)
    return found


def _as_sampled(completion: SampledCompletion) -> Completion:
    earlier = convert(completion.turns or (), tuple[Turn, ...], from_attributes=True)
    return replace(convert(completion, Completion, from_attributes=True), earlier=earlier)


def what_is_left(ctx: WorkerContext, key: RoundKey, *, early: bool = False) -> LeftCompletions:
    """Read the files, and see that they are on disk: a kill may have come between a write and its sync. Blocking.

    Args:
        early: look for groups that no file names yet. They stay as they are, for somebody may have read them.
    """
    sampled, found = _completions(ctx, key), _file(ctx, key)
    if found and (published := _published(ctx, key, *found)):
        return LeftCompletions(published, sampled)
    if not found or not found[0].earlier:
        slots = range(ctx.settings.most_local_groups if early else 0)
        return LeftCompletions(None, sampled, _some(ctx, key, dict.fromkeys(slots, "")))
    named, last = named_by(found[0]), ctx.as_sampled(found[0])
    own = {group.slot: OneGroup(group, "", 0) for group in (to_groups(last, ctx.node_id, key) if last.rollouts else ())}
    return LeftCompletions(None, sampled, own | _some(ctx, key, named), named)


def _file(ctx: WorkerContext, key: RoundKey) -> tuple[RolloutFile, int] | None:
    """Reads the file that this node published, with its bytes, those of the groups that it names left out."""
    place = keys.rollout(key, ctx.node_id)
    try:
        data = ctx.run.get_checked(place, ctx.settings.limits.max_file_bytes).data
        file = decode(data, RolloutFile, ctx.run.store.describe(place))
        if not named_by(file):
            to_groups(file, ctx.node_id, key)
    except FileNotFoundError:
        return None
    except ProtocolError as error:  # nobody can have read it, so it may be replaced
        logger.warning("rollouts.unreadable", round=key.round, error=str(error))
        return None
    with suppress(StoreError):
        ctx.run.store.sync(place)
    return file, len(data)


def _published(ctx: WorkerContext, key: RoundKey, file: RolloutFile, size: int) -> _Published | None:
    """Returns the file with the groups that it names; None where they are not what it names."""
    sizes = [size]

    def get(place: str, most: int) -> bytes:
        sizes.append(len(data := ctx.run.get_checked(place, most).data))
        return data

    try:
        whole = put_together(file, ctx.node_id, key, get, most_bytes=ctx.settings.limits.max_file_bytes)
        return _Published(to_groups(ctx.as_sampled(whole), ctx.node_id, key), sum(sizes))
    except ProtocolError as error:  # nobody can have read it, but for who did before somebody wrote over a group
        logger.warning("rollouts.unreadable", round=key.round, error=str(error))
        return None


def _some(ctx: WorkerContext, key: RoundKey, wanted: Mapping[int, str]) -> dict[int, OneGroup]:
    """Returns the groups in files of their own that are there; `wanted`: slot -> SHA-256, empty for any."""
    found = {slot: _one(ctx, key, slot) for slot in wanted}
    return {slot: one for slot, one in found.items() if one and wanted[slot] in ("", one.sha256)}


def _one(ctx: WorkerContext, key: RoundKey, slot: int) -> OneGroup | None:
    place = keys.group_file(key, ctx.node_id, slot)
    try:
        data = ctx.run.get_checked(place, ctx.settings.limits.max_file_bytes).data
        file = ctx.as_sampled(one_group(data, ctx.node_id, key, slot))
        group = to_groups(file, ctx.node_id, key)[0]
    except FileNotFoundError:
        return None
    except ProtocolError as error:
        logger.warning("rollouts.unreadable", round=key.round, slot=slot, error=str(error))
        return None
    with suppress(StoreError):
        ctx.run.store.sync(place)
    return OneGroup(group, digest(data), len(data))


def _completions(ctx: WorkerContext, key: RoundKey) -> CompletionsFile | None:
    try:
        return read_completions(ctx.run, ctx.node_id, key)
    except FileNotFoundError:
        return None
    except ProtocolError as error:
        logger.warning("completions.unreadable", round=key.round, error=str(error))
        return None


def read_completions(run: Run, node: str, key: RoundKey) -> CompletionsFile:
    """Reads what a node sampled for a round. Raises FileNotFoundError, and ProtocolError for what it cannot have
    written."""
    place = keys.completions(key.round, node, key.stage)
    file = decode(run.get_checked(place, LARGEST).data, CompletionsFile, run.store.describe(place))
    if (file.peer_id, file.round, file.stage) != (node, *key):
        raise ProtocolError("misplaced", f"it says {file.peer_id!r}, round {file.round}, stage {file.stage}")
    turns = [turn for group in file.groups for completion in group.completions for turn in completion.every_turn]
    if any(len(turn.token_ids) != len(turn.logprobs) for turn in turns):
        raise ProtocolError("ragged", "expected one log-prob per token")
    if any(turn.forced and sum(turn.forced) > len(turn.token_ids) for turn in turns):
        raise ProtocolError("ragged", "expected that the forced tokens are among the sampled ones")
    return file


def same_texts(sampled: Sequence[RolloutGroup], published: Sequence[RolloutGroup]) -> bool:
    """Tells whether these are the same answers to the same questions, slot by slot."""
    return [_text(group) for group in sampled] == [_text(group) for group in published]


def _text(group: RolloutGroup) -> tuple[object, ...]:
    answers = [
        [(one.text, one.finished), *((turn.text, turn.finished, turn.reply) for turn in one.earlier)]
        for one in group.completions
    ]
    return group.slot, group.question.origin, group.question.prompt, answers
