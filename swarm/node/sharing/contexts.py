"""The context of stages after the first: groups of the stage before, found by the names that an origin gives them.

    own file, peers' files of stage s - 1 ──choose──▶ names and digests in the origin of the own questions of stage s
    origin of anybody's question of stage s ──bring──▶ these groups ──revised──▶ its prompt

A peer's group whose context is not there is left for later a few times, and then refused as `context_gone`: its author
may be ahead of what a replicated place has brought. Who redoes a round reads the context back.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Sequence, Set
from dataclasses import replace

import anyio
import msgspec

from swarm.config.revising import revising
from swarm.errors import ProtocolError
from swarm.node.base.context import NodeContext
from swarm.node.sharing.admission import AssignedQuestions
from swarm.node.sharing.reading import PublishedGroups, gone, verified
from swarm.node.sharing.verification import TaskSource
from swarm.records.archives import with_archive
from swarm.tasks.family import QuestionRequest
from swarm.tasks.revise import (
    ContextName,
    context_name,
    context_names,
    longest_shown,
    order_of_peers,
    revised,
    without_context,
)
from swarm.tasks.scoring import GroupScore
from swarm.tasks.scoring_messages import Replied
from swarm.types import Completion, Origin, Question, RolloutGroup, RoundKey
from swarm.wire.codec import Claims

CONTEXT_GONE = "context_gone"
"""Why a group may have to be looked at again."""
LOOK_AGAIN = 0.5
"""Seconds for which a file that was not there is not looked for again."""
TRIES = 2
"""Peers that are looked at for each that is to be shown."""
MOST_HELD = 2**25
"""Size of the texts that are held: their characters, and PER_TEXT for each."""
PER_TEXT = 256
"""What the shortest text takes beside its characters."""
STRANGERS_FILES = 4
"""What is read for one stage of peers that have no clean record: together no more than so many of the largest files."""
PATIENCE = 10.0
"""Seconds for which the questions of a stage wait for peers' answers to be verified, all together."""

HasRoom = Callable[[str], Awaitable[bool]]
Groups = dict[int, tuple[RolloutGroup, Claims]]
"""Groups of one file, by slot."""


class Contexts:
    """Chooses and brings, for one node, the groups that questions of later stages show."""

    def __init__(self, ctx: NodeContext, assigned: AssignedQuestions, source: TaskSource) -> None:
        self._ctx = ctx
        self._source = source
        self._published = PublishedGroups(replace(ctx, run=with_archive(ctx.run)), assigned)
        self._rules = revising(ctx.settings.revise, ctx.settings.profile)
        self._held: OrderedDict[tuple[RoundKey, str], Groups] = OrderedDict()
        self._missed: dict[tuple[RoundKey, str], tuple[float, ProtocolError]] = {}
        """When what was not there."""
        self._reading = anyio.Lock()
        """One file at a time, and none twice for who waits for the same."""
        self._clean: Set[str] = frozenset()
        """Peers with a clean record, as far as is known."""
        self._of_strangers: Counter[RoundKey] = Counter()
        """Bytes that were read of others."""
        self._useless: set[tuple[RoundKey, str]] = set()
        """Whose file had a group that does not come in: not shown in own questions."""
        self.source = _WithContext(self, source)
        """Makes and scores as the given one, questions of all stages."""

    # ── the own questions ───────────────────────────────────────────────────────────────────────────────────────────
    async def choose(
        self, key: RoundKey, questions: Sequence[tuple[int, Question]], clean: Set[str], has_room: HasRoom
    ) -> list[Question]:
        """Returns the questions of a stage after the first, each with the own group and some of its peers' in its
        context.

        Args:
            questions: slot, and the question as the first stage asks it.
            clean: peers with a clean record, who are looked at before others.
            has_room: whether the model's context has room for a prompt.
        """
        before, self._clean = RoundKey(key.round, key.stage - 1), clean
        until = self._ctx.clock.monotonic() + PATIENCE
        others, found = frozenset[str](), list[Question]()
        if self._ctx.settings.shares and self._rules.peers:
            with self._ctx.clock.move_on_after(PATIENCE):
                others = await self._published.nodes(before) - {self._ctx.node_id}
        for slot, question in questions:
            context = await self._usable(before, self._ctx.node_id, slot, question)
            with self._ctx.clock.move_on_after(max(0.0, until - self._ctx.clock.monotonic())):
                await self._add_peers(context, before, slot, question, self._order(key, slot, others))
            found.append(await self._revised(question, context, key.stage, has_room))
        return found

    async def _revised(
        self, question: Question, context: list[RolloutGroup], stage: int, has_room: HasRoom
    ) -> Question:
        """Revises a question with these groups, but for those with the longest answers as long as the prompt has no
        room."""
        while context and not await has_room((asked := revised(question, context, stage, self._rules)).prompt):
            context.remove(max(context, key=lambda group: longest_shown(group, self._rules)))
        return asked if context else question

    def _order(self, key: RoundKey, slot: int, others: Set[str]) -> list[str]:
        """Returns the order in which peers are looked at: those with a clean record, for each question others first,
        then the rest."""
        seed, of_stage = self._ctx.settings.seed, (self._ctx.node_id, *key)
        known = order_of_peers(seed, (*of_stage, slot), others & self._clean)
        return [*known, *order_of_peers(seed, of_stage, others - self._clean)]

    async def _add_peers(
        self, context: list[RolloutGroup], before: RoundKey, slot: int, question: Question, order: Sequence[str]
    ) -> None:
        most = len(context) + self._rules.peers
        for peer in order[: TRIES * self._rules.peers]:
            if len(context) == most:
                return
            context += await self._usable(before, peer, slot, question)

    async def _usable(self, before: RoundKey, peer: str, slot: int, question: Question) -> list[RolloutGroup]:
        """Returns a peer's group to this question, verified; none where there is no such thing."""
        if (before, peer) in self._useless:
            return []
        try:
            held = (await self._of(before, peer)).get(slot)
            if held is None or not _same(held[0].question, question):
                return []
            if peer != self._ctx.node_id:
                self._useless.add((before, peer))  # until it is verified: nobody waits twice for one who costs too much
                await verified(self.source, [held])
        except ProtocolError:
            return []
        self._useless.discard((before, peer))
        return [held[0]]

    # ── anybody's questions ─────────────────────────────────────────────────────────────────────────────────────────
    async def again(self, origin: Origin, question: Question) -> Question:
        """Returns the question that an origin with context names.

        Args:
            question: as the first stage asks it.

        Raises:
            ProtocolError: `context_gone`, a group that it names is not there; `bad_origin`.
        """
        names = context_names(origin)
        context = [await self._named(name, question) for name in names]
        return revised(question, context, names[0].key.stage + 1, self._rules)

    async def _named(self, name: ContextName, question: Question) -> RolloutGroup:
        try:
            group, _ = (await self._of(name.key, name.peer)).get(name.slot, (None, None))
        except ProtocolError as error:
            raise ProtocolError(CONTEXT_GONE, f"of {name.peer}, stage {name.key.stage}: {error}") from None
        if group is None or context_name(group) != name or not _same(group.question, question):
            raise ProtocolError(
                CONTEXT_GONE,
                f"{name.peer} has no group {name.slot} of digest {name.digest} to this question in round "
                f"{name.key.round}, stage {name.key.stage}",
            )
        return group

    # ── files ───────────────────────────────────────────────────────────────────────────────────────────────────────
    async def _of(self, key: RoundKey, peer: str) -> Groups:
        """Returns the groups of a peer's file, as admitted. Raises ProtocolError."""
        async with self._reading:
            if (held := self._held.get((key, peer))) is None:
                return await self._read(key, peer)
            self._held.move_to_end((key, peer))
            return held

    async def _read(self, key: RoundKey, peer: str) -> Groups:
        now = self._ctx.clock.monotonic()
        at, error = self._missed.get((key, peer), (-1e18, None))
        if error and now - at < LOOK_AGAIN:
            raise error
        is_stranger = peer not in self._clean and peer != self._ctx.node_id
        if is_stranger and self._of_strangers[key] >= STRANGERS_FILES * self._ctx.settings.limits.max_file_bytes:
            raise gone(f"{peer} is one of too many whose files are large and were never trained on here")
        before = self._published.bytes_read
        try:
            pairs = await self._published.admitted(peer, key)
        except ProtocolError as error:
            self._missed[key, peer] = now, error.as_value()
            raise
        finally:
            self._of_strangers[key] += self._published.bytes_read - before if is_stranger else 0
        groups = self._held[key, peer] = {group.slot: (_without_tokens(group), claims) for group, claims in pairs}
        self._make_room()
        return groups

    def _make_room(self) -> None:
        while len(self._held) > 1 and sum(map(_size, self._held.values())) > MOST_HELD:
            self._held.popitem(last=False)

    def forget_before(self, round_: int) -> None:
        """Drop earlier rounds."""
        for at in [at for at in self._held if at[0].round < round_]:
            del self._held[at]
        self._missed = {at: missed for at, missed in self._missed.items() if at[0].round >= round_}
        self._of_strangers = Counter({key: size for key, size in self._of_strangers.items() if key.round >= round_})
        self._useless = {at for at in self._useless if at[0].round >= round_}


class _WithContext:
    """A task source that knows questions of all stages."""

    def __init__(self, contexts: Contexts, source: TaskSource) -> None:
        self._contexts = contexts
        self._source = source

    async def make(self, requests: Sequence[QuestionRequest]) -> list[Question]:
        return await self._source.make(requests)

    async def reply(self, origin: Origin, conversations: Sequence[Sequence[str]]) -> Replied:
        return await self._source.reply(without_context(origin), conversations)

    async def score(
        self, origin: Origin, claimed_prompt: str | None, completions: Sequence[str | Completion]
    ) -> GroupScore:
        if not origin.context:
            return await self._source.score(origin, claimed_prompt, completions)
        first = without_context(origin)
        unscored = await self._source.score(first, None, ())  # an answer is looked at once its question is known
        asked = await self._contexts.again(origin, unscored.question)
        if claimed_prompt is not None and claimed_prompt != asked.prompt:
            raise ProtocolError("question_mismatch", "the prompt is not what its origin and its context give")
        return msgspec.structs.replace(await self._source.score(first, None, completions), question=asked)


def _same(one: Question, other: Question) -> bool:
    """Tells whether two questions are the same but for their stage."""
    return without_context(one.known_origin()) == without_context(other.known_origin())


def _without_tokens(group: RolloutGroup) -> RolloutGroup:
    completions = tuple(Completion(one.text, one.finished, earlier=one.earlier) for one in group.completions)
    return msgspec.structs.replace(group, completions=completions)


def _size(groups: Groups) -> int:
    return sum(PER_TEXT + len(text) for group, _ in groups.values() for one in group.completions for text in one.texts)
