"""The files of a round: written through the write queue, and what a former life left of them read again.

RoundFiles writes in this order:

    (single groups,) completions, rollouts, row, reward, vote

The metrics row is the commit point of a round: a node that finds its row has done that round, whatever else a crash
took. So a row on disk implies rollouts and completions on disk, unless a full disk had the queue give them up, or the
node keeps no completions (own_groups.py).

what_is_left reads a node's own completions of one round: what it sampled, and what it published of them.

    completions/round_R/...           texts, token ids and log-probs as sampled; written first, for this node alone
    rollouts/round_R/...              the texts, for everybody; some groups perhaps before the others

A node that comes back takes up what it had sampled: bit for bit, without sampling again. Where the first file is
missing (as in runs of earlier versions), damaged, or tells other texts than were published, the published ones count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, UnsetType, convert
from msgspec.structs import replace

from swarm.errors import ProtocolError, StoreError
from swarm.logs import get_logger
from swarm.node.base.attendance import has_submitted
from swarm.node.base.looking import until_readable
from swarm.node.base.write_queue import Write
from swarm.node.worker.context import OwnQuestion, WorkerContext
from swarm.node.worker.steps import Sampled
from swarm.records.listing import COPIED_TOGETHER
from swarm.records.liveness import EVALUATOR
from swarm.store.run import Run
from swarm.types import Completion, Generator, RolloutGroup, RoundKey, ScoredGroup, Turn
from swarm.wire import keys
from swarm.wire.codec import decode, encode, to_groups, to_rollout_file
from swarm.wire.group_files import digest, one_group, put_together
from swarm.wire.messages import (
    CompletionsFile,
    PolicyInfo,
    RewardFile,
    RolloutFile,
    SampledCompletion,
    SampledGroup,
    SampledTurn,
    WinnersFile,
)
from swarm.wire.metrics import MetricsRow

Found = TypeVar("Found")
BYTES_PER_TOKEN = 32
"""Bytes of a completions file, at most: a token id, a log-prob to its last digit, and two commas."""


class RoundFiles:
    """Writes the files of one node's rounds through its write queue."""

    def __init__(self, ctx: WorkerContext) -> None:
        self._ctx = ctx

    def completions(self, file: CompletionsFile) -> None:
        """Have what was sampled written, without waiting for it; encoded off the event loop."""
        key = RoundKey(file.round, file.stage)
        place = keys.completions(file.round, self._ctx.node_id, file.stage)
        sampled = [turn for group in file.groups for completion in group.completions for turn in completion.every_turn]
        size = sum(len(c.text.encode()) + BYTES_PER_TOKEN * len(c.token_ids) for c in sampled)
        write = partial(self._encode_and_put, place, file)
        self._ctx.writes.add(Write("completions", key, write, size))

    def _encode_and_put(self, place: str, file: CompletionsFile) -> None:
        self._ctx.run.put_sealed(place, encode(file))

    async def rollouts(self, file: RolloutFile) -> int:
        """Give the groups to the peers; returns the bytes of the file."""
        key, data = RoundKey(file.round, file.stage), encode(file)
        write = partial(self._put_unless_given_up, key, keys.rollout(key, self._ctx.node_id), data)
        await self._ctx.writes.put(Write("rollouts", key, write, len(data)))
        return len(data)

    def _put_unless_given_up(self, key: RoundKey, place: str, data: bytes) -> None:
        """Puts a file, unless its rollouts were given up: no file names a group that was given up."""
        if not self._ctx.writes.gave_up_rollouts(key):
            self._ctx.run.put_sealed(place, data)

    def early(self, file: RolloutFile, slot: int) -> tuple[str, int]:
        """Give one group to the peers before the others, without waiting for it or its disk: those that wait for the
        file would. Returns its SHA-256 and its bytes."""
        key, node = RoundKey(file.round, file.stage), self._ctx.node_id
        place = keys.group_file(key, node, slot)
        data = self._ctx.run.trust.seal(encode(file), place)
        write = partial(self._ctx.run.store.put, place, data, durable=False)
        self._ctx.writes.add(Write("rollouts", key, write, len(data)))
        return digest(data), len(data)

    def keep_early(self, key: RoundKey, slots: Iterable[int]) -> None:
        """Have what was published early on disk before the file that names it: a power cut must not leave the name of a
        group that it takes."""
        places = [keys.group_file(key, self._ctx.node_id, slot) for slot in slots]
        self._ctx.writes.add(Write("rollouts", key, partial(self._sync, places), 0))

    def _sync(self, places: Iterable[str]) -> None:
        for place in places:
            with suppress(StoreError):  # it was given up, or taken away
                self._ctx.run.store.sync(place)

    async def row(self, row: MetricsRow) -> None:
        """The commit point."""
        write, size = partial(self._append, row), len(msgspec.json.encode(row))
        await self._ctx.writes.put(Write("row", RoundKey(row.round, row.stage), write, size, row=row))

    def _append(self, row: MetricsRow) -> None:
        """Appends a row to the node's metrics; one whose rollouts no peer will ever see says that 0 bytes were
        published."""
        if self._ctx.writes.gave_up_rollouts(RoundKey(row.round, row.stage)):
            row = msgspec.structs.replace(row, bytes_published=0)
        records = [msgspec.json.encode(row)]
        self._ctx.run.store.append_records(keys.metrics(self._ctx.node_id), records, durable=True)

    async def submit(self, row: MetricsRow, winners: list[str]) -> None:
        """The reward that the coordinator waits for, and after the round's last stage the vote: who was best in it, in
        this node's own scoring.

        Where requests are spared the reward holds the vote, and is not looked for first: none can lie there, for the
        row was written just now.
        """
        key, node = RoundKey(row.round, row.stage), self._ctx.node_id
        is_evaluator = self._ctx.settings.role == EVALUATOR
        if self._ctx.settings.sparing and not is_evaluator:
            await self._put("reward", key, keys.reward(key, node), encode(self._reward(row, winners)))
            return
        if not is_evaluator:  # it has answered nothing, and votes alone
            await self.reward(row)
        if key.stage + 1 < self._ctx.settings.max_stages:
            return  # the vote is on the round
        vote = WinnersFile(round=key.round, winners=winners, peer_id=node, submitted_at=self._ctx.clock.wall())
        await self._put("vote", key, keys.winners(key.round, node), encode(vote), durable=False)

    async def make_up(self, rows: Sequence[MetricsRow]) -> None:
        """Submit the rewards that stand behind the last rows and were never written.

        A crash between a row and its reward leaves one. A full disk leaves more: at the end rows go first; so does a
        copy that broke off, and there rewards may lie between those that lack.
        """
        for row in await until_readable(self._ctx, self._without_reward, rows):
            await self.reward(row)

    def _without_reward(self, rows: Sequence[MetricsRow]) -> list[MetricsRow]:
        """Returns the rows without a reward, in order; always the last one, whose reward may be there and on no disk
        yet.

        Where the last one has its reward the others have theirs. Else the rows before it are looked through, up to
        COPIED_TOGETHER in a row of which none lacks.
        """
        if not rows or has_submitted(self._ctx.run, rows[-1].key, self._ctx.node_id):
            return [*rows[-1:]]
        lacking, before = [rows[-1]], rows[:-1]
        while before:
            before, some = before[:-COPIED_TOGETHER], before[-COPIED_TOGETHER:]
            found = [row for row in some if not has_submitted(self._ctx.run, row.key, self._ctx.node_id)]
            if not found:
                break
            lacking = [*found, *lacking]
        return lacking

    async def reward(self, row: MetricsRow) -> None:
        """Once per round."""
        key, data = RoundKey(row.round, row.stage), encode(self._reward(row))
        await self._ctx.writes.put(Write("reward", key, partial(self._submit, key, data), len(data)))

    def _reward(self, row: MetricsRow, winners: list[str] | UnsetType = UNSET) -> RewardFile:
        return RewardFile(
            round=row.round,
            stage=row.stage,
            reward=row.my_reward,
            peer_id=self._ctx.node_id,
            submitted_at=self._ctx.clock.wall(),
            winners=winners,
        )

    def _submit(self, key: RoundKey, data: bytes) -> None:
        run, place = self._ctx.run, keys.reward(key, self._ctx.node_id)
        if not has_submitted(run, key, self._ctx.node_id):
            run.put_sealed(place, data)
            return
        with suppress(StoreError):  # a kill may have come between the write and its sync
            run.store.sync(place)

    async def _put(self, what: str, key: RoundKey, place: str, data: bytes, *, durable: bool = True) -> None:
        write = partial(self._ctx.run.put_sealed, place, data, durable)
        await self._ctx.writes.put(Write(what, key, write, len(data)))


def to_rollouts(
    ctx: WorkerContext,
    generator: Generator,
    sampled: Sampled,
    groups: Sequence[ScoredGroup],
    timestamp: float,
    earlier: Mapping[int, str] | None = None,
) -> RolloutFile:
    """Makes a rollout file of groups with what this node says of its policy, changed by the hooks before publishing."""
    settings = ctx.settings
    policy = PolicyInfo(
        model=generator.name,
        rounds_trained=sampled.rounds_trained,
        tokenizer=generator.tokenizer if settings.publish_logprobs else "",
        temperature=settings.temperature,
        licence=settings.terms.licence or UNSET,
        consent=settings.terms.consent or UNSET,
    )
    file = to_rollout_file(
        groups,
        ctx.node_id,
        sampled.key,
        timestamp,
        policy,
        with_logprobs=settings.publish_logprobs,
        earlier=earlier,
        mixture=ctx.mixture and ctx.mixture.weights,
    )
    for hook in ctx.before_publishing:
        file = hook.change(file)
    return file


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
    """SHA-256 of its file."""
    bytes: int


class LeftCompletions(NamedTuple):
    """Holds what a former life of this node left of a round."""

    published: _Published | None
    sampled: CompletionsFile | None
    some: Mapping[int, OneGroup] = {}
    """By slot, where not everything is published, or not any more."""


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
    sampled = _read(ctx, key, "completions", partial(read_completions, ctx.run, ctx.node_id, key))
    published = _read(ctx, key, "rollouts", partial(_published, ctx, key))
    if published or not early:
        return LeftCompletions(published, sampled)
    slots = range(ctx.settings.most_local_groups)
    found = {slot: _read(ctx, key, "rollouts", partial(_one, ctx, key, slot), slot=slot) for slot in slots}
    return LeftCompletions(None, sampled, {slot: one for slot, one in found.items() if one})


def _read(ctx: WorkerContext, key: RoundKey, what: str, read: Callable[[], Found], **more: int) -> Found | None:
    """Returns what is read; None where it is not there, or is none of this node's files, which the log says."""
    try:
        return read()
    except FileNotFoundError:
        return None
    except ProtocolError as error:  # nobody can have read it, but for who did before somebody wrote over a group
        logger.warning(f"{what}.unreadable", round=key.round, **more, error=str(error))
        return None


def _published(ctx: WorkerContext, key: RoundKey) -> _Published:
    """Returns the groups that this node published, those that its file names included."""
    place, sizes = keys.rollout(key, ctx.node_id), list[int]()

    def get(place: str, most: int) -> bytes:
        sizes.append(len(data := ctx.run.get_checked(place, most).data))
        return data

    most = ctx.settings.limits.max_file_bytes
    file = decode(get(place, most), RolloutFile, ctx.run.store.describe(place))
    whole = put_together(file, ctx.node_id, key, get, most_bytes=most)
    groups = to_groups(ctx.as_sampled(whole), ctx.node_id, key)
    _have_on_disk(ctx, place)
    return _Published(groups, sum(sizes))


def _one(ctx: WorkerContext, key: RoundKey, slot: int) -> OneGroup:
    place = keys.group_file(key, ctx.node_id, slot)
    data = ctx.run.get_checked(place, ctx.settings.limits.max_file_bytes).data
    file = ctx.as_sampled(one_group(data, ctx.node_id, key, slot))
    (group,) = to_groups(file, ctx.node_id, key)
    _have_on_disk(ctx, place)
    return OneGroup(group, digest(data), len(data))


def _have_on_disk(ctx: WorkerContext, place: str) -> None:
    with suppress(StoreError):
        ctx.run.store.sync(place)


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
