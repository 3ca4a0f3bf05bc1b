"""A node's own groups of one round: questions, completions, rewards.

    questions ─generator─▶ sampled ──▶ completions file (round_files.py) and, at the same time, the scoring children
                              ▲
    completions file ─────────┤ of a former life that died in this round: taken up as they were sampled
    rollouts files ───────────┘ without token ids, where nothing else tells what had been published

With ROLLOUT_PUBLISH_FREQUENCY=generation each group goes its way once its completions are written, while the generator
writes the others: all of them in one batch, as ever, so that what comes out is the same to the last bit.

    generator ─a group is ready─▶ scored ─▶ {node}.{slot}.json   (publish: {node}.json with the last, naming the others)

Of a task that converses the completions are whole conversations, turn by turn of all questions together: conversing.py.

What a generator samples is a function of its weights and of seed, node and round, so on a CPU a node that comes back
samples again what it had published. On a GPU it may not; then what was published stays, and is encoded from its text.
Where each request is paid for, a node on a CPU writes no completions file, unless it generates ahead.

By dynamic sampling groups without a signal are followed by groups to fresh questions (DAPO, arXiv:2503.14476, 3.2).

    slots 0 .. I-1 ─sample, score─▶ m of them without an advantage ─▶ slots I .. I+m-1 ─sample, score─▶ ...

It ends when I groups have a signal, or after `SWARM_DYNAMIC_SAMPLING` attempts. The question of a slot is the one that
the run draws for node, round and slot, so that peers verify those of later attempts as all others. What is sampled is a
function of the weights and of seed, node, round and attempt: a node that was killed samples the same again on a CPU.

A round's reward is measured on the first I slots: how many more follow depends on what these earned, and a mean over
all of them would be above what the policy earns.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Awaitable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, Protocol

import anyio
import msgspec
from msgspec import UNSET

from swarm.algo.advantages import is_informative
from swarm.algo.seeds import derive_seed
from swarm.errors import ProtocolError, ScoringError
from swarm.logs import get_logger
from swarm.node.base.looking import until_readable
from swarm.node.sharing.reading import gone
from swarm.node.sharing.verification import score_groups
from swarm.node.worker.context import OwnQuestion, WorkerContext
from swarm.node.worker.conversing import converse
from swarm.node.worker.round_files import (
    LeftCompletions,
    RoundFiles,
    same_texts,
    to_file,
    to_own_groups,
    to_rollouts,
    what_is_left,
)
from swarm.node.worker.steps import Own, OwnHalf, Sampled, Scores, Seconds
from swarm.records.archives import with_archive
from swarm.records.listing import rounds_in
from swarm.tasks.scoring import GroupScore
from swarm.types import (
    Completion,
    Dialogue,
    GenerationCall,
    Generator,
    Question,
    Ready,
    RolloutGroup,
    RoundKey,
    ScoredGroup,
)
from swarm.wire import keys
from swarm.wire.messages import CompletionsFile

logger = get_logger(__name__)


MOST_WITHOUT = 3
"""Rounds without a question that a node does before it ends, where it could never make one. The clock stands after as
many rounds in which nobody published."""


class OwnQuestions(NamedTuple):
    """Holds the own questions of a round, and what a former life left of it."""

    asked: list[OwnQuestion]
    left: LeftCompletions


class OwnGroups:
    """Makes them, or takes up those that were made before."""

    def __init__(self, ctx: WorkerContext, generator: Generator, files: RoundFiles) -> None:
        self._ctx = ctx
        self._generator = generator
        self._files = files
        self._asked: dict[RoundKey, list[OwnQuestion]] = {}
        self._is_first = True
        """No round was begun in this life."""
        self._never_made: set[RoundKey] | None = set()
        """Rounds without a question, where there never was one; None: there was."""
        self._of_a_former_life: frozenset[int] | None = None
        """Where requests are spared: the rounds in which something of it may lie, as listed when this life began."""

    async def ask_early(self, key: RoundKey) -> None:
        """Have the questions of a later round at hand: nothing about them depends on an update."""
        self._asked = {key: await self._ask(key)}

    async def _ask(self, key: RoundKey, least: int = 0) -> list[OwnQuestion]:
        """Returns as many of the round's questions as it may need: its split may not be known yet, and takes the first
        I of them."""
        early, most = self._asked.pop(key, None), self._ctx.settings.most_local_groups
        if early and least <= most:
            return early
        count = max(most, least)
        asked = await self._ctx.ask(key, count)
        self._refuse_to_go_on_without(key, count, asked)
        return asked

    def _refuse_to_go_on_without(self, key: RoundKey, count: int, asked: Sequence[OwnQuestion]) -> None:
        """Raises ScoringError: not one question could be made in the first rounds of this life."""
        if asked or self._never_made is None:
            self._never_made = None
            return
        if count:
            self._never_made.add(key)
        if len(self._never_made) >= MOST_WITHOUT:
            raise ScoringError(
                f"no question could be made in {MOST_WITHOUT} rounds of {count}: the question.not_made events name "
                "the tasks and say why; `swarm task try` asks one"
            )

    def _attempts(self, left: LeftCompletions) -> int:
        """Returns how many attempts may be behind what was sampled; what was published says itself what it answers."""
        return 1 if left.published else self._ctx.settings.dynamic_sampling

    async def _ask_again(
        self, key: RoundKey, questions: list[OwnQuestion], sampled: CompletionsFile | None, clean: Set[str]
    ) -> list[OwnQuestion]:
        """Returns the questions of a stage after the first: of a former life's completions with the same context."""
        if sampled and (known := await self._as_asked_before(questions, sampled)):
            return known
        assert self._ctx.contexts
        chosen = await self._ctx.contexts.choose(key, questions, clean, self._has_room)
        return [OwnQuestion(slot, question) for (slot, _), question in zip(questions, chosen, strict=True)]

    async def _has_room(self, prompt: str) -> bool:
        return await self._ctx.compute.run(partial(self._generator.has_room, prompt))

    async def _asked_then(self, questions: list[OwnQuestion], left: LeftCompletions) -> list[OwnQuestion]:
        """Returns the questions of a later stage as they were asked when it was done. Raises ProtocolError (`gone`)."""
        if left.published:
            turns = {slot: question.turns for slot, question in questions}
            groups = [(group.slot, group.question) for group in left.published.groups]
            return [
                OwnQuestion(slot, msgspec.structs.replace(known, turns=turns.get(slot, 1))) for slot, known in groups
            ]
        if left.sampled and (known := await self._as_asked_before(questions, left.sampled)):
            return known
        raise gone("nothing tells any more with which context its questions were asked")

    async def _as_asked_before(
        self, questions: list[OwnQuestion], sampled: CompletionsFile
    ) -> list[OwnQuestion] | None:
        """Returns the questions as they were asked before; None: they were others, or their context is gone."""
        assert self._ctx.contexts
        found: list[OwnQuestion] = []
        for (slot, question), group in zip(questions, sampled.groups, strict=False):
            context = () if group.context is UNSET else tuple(group.context)
            origin = msgspec.structs.replace(question.known_origin(), context=context)
            try:
                found.append(
                    OwnQuestion(slot, await self._ctx.contexts.again(origin, question) if context else question)
                )
            except ProtocolError:
                return None
        return found if len(found) == len(questions) == len(sampled.groups) else None

    # ── a round as it is lived ──────────────────────────────────────────────────────────────────────────────────────
    async def ask(self, half: OwnHalf, clean: Set[str] = frozenset()) -> OwnQuestions:
        """Ask the round's questions, and look what a former life left of it.

        Args:
            clean: peers with a clean record, whose answers of the stage before are looked at first.
        """
        with self._ctx.timed(half.seconds, "generate"):
            left = await self._left(half.key)
            return OwnQuestions(await self._questions(half, left, clean), left)

    async def generate(self, half: OwnHalf, questions: OwnQuestions, rounds_trained: int) -> None:
        """Sample completions, or take up what a former life left.

        `queued` is set once the generation is in the line of the compute thread, or needs none. Conversations are in
        that line once they are over: all of their turns are the same policy's. Groups that are published one by one
        are scored as well.

        Args:
            half: gets `sampled`, unless it was skipped meanwhile.
            rounds_trained: updates behind the policy.
        """
        asked, left = questions
        if half.skipped or not any(one.question.turns > 1 for one in asked):
            half.queued.set()  # nothing waits between here and the compute thread's line
        if half.skipped:
            return
        if before := self._sampled_before(left, asked, rounds_trained):  # of all attempts
            assert left.sampled
            sampled = Sampled(half.key, before, left.sampled.rounds_trained, left.sampled.ahead)
        elif self._one_by_one and not half.ahead and not left.published:
            half.sampled = await self._sampled_one_by_one(half, left, asked, rounds_trained)
            half.is_new = True
            half.queued.set()
            return
        else:
            groups, scores = await self._sample_all(half.key, asked, half.seconds)
            sampled = Sampled(half.key, groups, rounds_trained, half.ahead, scores)
        half.queued.set()  # where all turns of conversations are said
        half.sampled = sampled = _as_it_was(sampled, left)
        if not before:
            half.is_new = True
            self._keep(sampled)

    async def _questions(self, half: OwnHalf, left: LeftCompletions, clean: Set[str]) -> list[OwnQuestion]:
        """Asks the questions of the round's slots, and of those that a former life's attempts went on to."""
        count, attempts = half.split.local, self._attempts(left)
        if attempts > 1:
            count = slots_before(left.sampled, count, attempts)
        questions = [asked for asked in await self._ask(half.key, count) if asked.slot < count]
        return await self._ask_again(half.key, questions, left.sampled, clean) if half.key.stage else questions

    def _keep(self, sampled: Sampled) -> None:
        """Have what was sampled written, for a node that comes back.

        Not where what is published counts instead, nor where a write is paid for and a redo samples the same once more.
        """
        settings, generator = self._ctx.settings, self._generator
        if sampled.adopted or (settings.sparing and settings.staleness == 0 and generator.repeats):
            return
        file = to_file(sampled.groups, generator.tokenizer, sampled.rounds_trained, ahead=sampled.ahead)
        if file:
            self._files.completions(file)

    # ── one by one ──────────────────────────────────────────────────────────────────────────────────────────────────
    @property
    def _one_by_one(self) -> bool:
        return self._ctx.settings.publish_frequency == "generation"

    async def _sampled_one_by_one(
        self, half: OwnHalf, left: LeftCompletions, questions: list[OwnQuestion], rounds_trained: int
    ) -> Sampled:
        """Sample the groups, and publish each one while others are written; `own` is complete then."""
        send, receive = anyio.create_memory_object_stream[RolloutGroup](math.inf)
        told, early, verdicts = set[int](), _Early(), _Verdicts()
        empty = Sampled(half.key, (), rounds_trained, named=left.named)

        def pass_on(group: RolloutGroup) -> None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the node has ended meanwhile
                send.send_nowait(group)

        def ready(number: int, completions: tuple[Completion, ...]) -> None:
            if questions[number].question.turns > 1:
                return  # it is only said in part
            told.add(questions[number].slot)
            self._ctx.compute.tell(partial(pass_on, self._group(half.key, *questions[number], completions)))

        async def publish_each() -> None:
            """But for the last one, and those that were ready with it, which the last file holds."""
            with receive:
                async for group in receive:
                    group = early.as_it_was(group, left)
                    with self._ctx.timed(half.seconds, "score"):
                        (score,) = await score_groups(self._ctx.task_source, [group])
                    is_early = group.slot in told - early.names.keys() and len(verdicts.groups) + 1 < len(questions)
                    scored = verdicts.add(group, score, adopted=early.adopted)
                    if scored and is_early and not left.named:
                        early.add(group.slot, *self._publish_early(empty, scored))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(publish_each)
            with send:
                for group in await self.sample(half.key, questions, half.seconds, ready):
                    if group.slot not in told:  # by a generator that cannot tell before the end
                        pass_on(group)
        own = sorted(verdicts.groups, key=lambda scored: scored.group.slot)
        sampled = early.told_of(replace(empty, groups=[scored.group for scored in own]))
        half.own = Own(sampled, own, verdicts.killed, verdicts.errors)
        half.scored.set()
        if left.some:
            _say_taken_up(sampled, len(left.some))
        self._keep(sampled)
        return sampled

    def _publish_early(self, sampled: Sampled, scored: ScoredGroup) -> tuple[str, int]:
        """Give one group to the peers; returns its SHA-256 and bytes. It says no time: it is the same bytes whenever it
        is made."""
        file = to_rollouts(self._ctx, self._generator, sampled, [scored], timestamp=0.0)
        return self._files.early(file, scored.group.slot)

    async def publish(self, own: Own) -> int:
        """Give the groups to the peers, those that were published before by name; returns the bytes of all.

        Where nothing was answered nothing is published: a file without groups is refused.
        """
        sampled = own.sampled
        if sampled.published or not own.groups:
            return sampled.bytes_published
        early = _Early(dict(sampled.earlier), sampled.bytes_published)
        for scored in own.groups:
            if scored.group.slot in sampled.named.keys() - early.names.keys():
                early.add(scored.group.slot, *self._publish_early(sampled, scored))
        size = early.bytes
        if early.names:
            self._files.keep_early(sampled.key, early.names)
        if not sampled.named or early.names != sampled.named:  # else all that the file names is there again, as it is
            rest = [scored for scored in own.groups if scored.group.slot not in early.names]
            file = to_rollouts(self._ctx, self._generator, sampled, rest, self._ctx.clock.wall(), early.names)
            size += await self._files.rollouts(file)
        return size

    async def _left(self, key: RoundKey) -> LeftCompletions:
        """Returns what a former life left of a round. Where requests are spared it is looked for in the first round, in
        those that may have been generated ahead, and in those that had rollouts when this life began: a forged clock
        may have led the former one further than this one goes."""
        if self._ctx.settings.sparing:
            if self._of_a_former_life is None:
                published = await until_readable(self._ctx, rounds_in, self._ctx.run.store, keys.ROLLOUTS)
                ahead = range(key.round, key.round + self._ctx.settings.staleness + 1)
                self._of_a_former_life = frozenset((*ahead, *published))
            if key.round not in self._of_a_former_life:
                return LeftCompletions(None, None)
        early, self._is_first = self._one_by_one or self._is_first, False
        return await until_readable(self._ctx, partial(what_is_left, early=early), self._ctx, key)

    def _sampled_before(
        self, left: LeftCompletions, questions: list[OwnQuestion], rounds_trained: int
    ) -> list[RolloutGroup] | None:
        """Returns what a former life sampled for this round; None: nothing that this life would sample or has
        published."""
        if left.published:
            return self._as_published(left)
        if left.sampled is None or not self._fits(left.sampled):
            return None
        updates = rounds_trained - left.sampled.rounds_trained  # else rounds were lost since, and with them its policy
        return to_own_groups(left.sampled, questions) if 0 <= updates <= self._ctx.settings.staleness else None

    def _as_published(self, left: LeftCompletions) -> list[RolloutGroup] | None:
        """Returns the published groups with their token ids."""
        if left.published is None or left.sampled is None or not self._fits(left.sampled):
            return None
        groups = to_own_groups(
            left.sampled, [OwnQuestion(group.slot, group.question) for group in left.published.groups]
        )
        return groups if groups and same_texts(groups, left.published.groups) else None

    def _fits(self, file: CompletionsFile) -> bool:
        size = self._ctx.settings.generations
        same_size = all(len(group.completions) == size for group in file.groups)
        return same_size and file.tokenizer == self._generator.tokenizer

    async def _sample_all(
        self, key: RoundKey, questions: list[OwnQuestion], seconds: Seconds
    ) -> tuple[list[RolloutGroup], Scores]:
        """Samples the groups; with dynamic sampling those of all attempts, and what was scored for it."""
        questions = [one for one in questions if one.slot < self._ctx.settings.most_local_groups]
        if self._ctx.settings.dynamic_sampling == 1:
            return await self.sample(key, questions, seconds), {}
        sample = partial(self.sample, key, seconds=seconds)
        return await sample_until_informative(self._ctx, key, questions, sample)

    async def sample(
        self,
        key: RoundKey,
        questions: list[OwnQuestion],
        seconds: Seconds,
        ready: Ready | None = None,
        attempt: int = 0,
    ) -> list[RolloutGroup]:
        """G completions to each question, as the generator answers them now."""

        async def generate(prompts: Sequence[str | Dialogue], turn: int = 0) -> list[tuple[Completion, ...]]:
            purpose: tuple[str | int, ...] = (*key, turn) if turn else key
            purpose = (*purpose, "attempt", attempt) if attempt else purpose
            call = GenerationCall(
                prompts,
                group_size=1 if turn else self._ctx.settings.generations,
                seed=derive_seed(self._ctx.settings.seed, "generation", self._ctx.node_id, *purpose),
                ready=None if turn else ready,
            )
            timed = partial(self._ctx.timed, seconds, "generate")
            return await self._ctx.compute.generate(self._generator, call, timed)

        asked_of = [asked.question for asked in questions]
        first_turns = await generate([question.prompt for question in asked_of])
        goes_on = any(question.turns > 1 for question in asked_of)
        answers = await converse(self._ctx.task_source, asked_of, first_turns, generate) if goes_on else first_turns
        return [
            self._group(key, *asked, completions)
            for asked, completions in zip(questions, answers, strict=True)
            if completions
        ]

    def _group(self, key: RoundKey, slot: int, question: Question, completions: tuple[Completion, ...]) -> RolloutGroup:
        return RolloutGroup(self._ctx.node_id, *key, slot, question, completions, self._generator.name)

    async def score(self, half: OwnHalf) -> None:
        """Score the completions, as boundedly as anybody's; fill `own` and set `scored`."""
        assert half.sampled
        sampled, verdicts = half.sampled, _Verdicts()
        with self._ctx.timed(half.seconds, "score"):
            known = {} if sampled.adopted else sampled.scores
            unknown = [group for group in sampled.groups if group.slot not in known]
            found = await score_groups(self._ctx.task_source, unknown)
            scores = known | {group.slot: score for group, score in zip(unknown, found, strict=True)}
        for group in sampled.groups:
            verdicts.add(group, scores[group.slot], adopted=sampled.adopted)
        half.own = Own(sampled, verdicts.groups, verdicts.killed, verdicts.errors)
        half.scored.set()

    # ── a round as it was lived ─────────────────────────────────────────────────────────────────────────────────────
    async def again(self, key: RoundKey, count: int, *, published: bool) -> list[ScoredGroup]:
        """Returns the groups of a round that is done already: as sampled then, else sampled again, else as published.

        Args:
            count: own questions of the round.
            published: whether its row says that the groups were published.

        Raises:
            ProtocolError: `gone`, they were published and are not there any more.
        """
        ctx = replace(self._ctx, run=with_archive(self._ctx.run))
        left = await until_readable(ctx, what_is_left, ctx, key)
        if left.published is None and published:
            raise gone("this node's own groups are not in the folder any more")
        groups = await self._groups_again(left, key, count)
        scores = await score_groups(self._ctx.task_source, groups)
        return [
            ScoredGroup(msgspec.structs.replace(group, question=score.question), score.rewards, score.answered)
            for group, score in zip(groups, scores, strict=True)
            if not isinstance(score, ProtocolError)  # left out of the round as well
        ]

    async def _groups_again(self, left: LeftCompletions, key: RoundKey, count: int) -> list[RolloutGroup]:
        if groups := self._as_published(left):
            return groups
        if (attempts := self._attempts(left)) > 1:
            count = slots_before(left.sampled, count, attempts)
        questions = await self._ctx.ask(key, count)
        if key.stage:
            questions = await self._asked_then(questions, left)
        if left.published is None and left.sampled and (groups := to_own_groups(left.sampled, questions)):
            return groups
        sampled, _ = await self._sample_all(key, questions, defaultdict(float))
        if left.published is None or same_texts(sampled, left.published.groups):
            return sampled
        return left.published.groups


# ── as they come ────────────────────────────────────────────────────────────────────────────────────────────────────
@dataclass
class _Early:
    """Collects the groups that are published before the file that names them, those of a former life among them."""

    names: dict[int, str] = field(default_factory=dict)
    """Slot -> SHA-256."""
    bytes: int = 0
    adopted: bool = False

    def add(self, slot: int, sha256: str, size: int) -> None:
        self.names |= {slot: sha256} if sha256 else {}
        self.bytes += size

    def as_it_was(self, group: RolloutGroup, left: LeftCompletions) -> RolloutGroup:
        """Returns what a former life has published of a group, whatever comes out now; else the group."""
        if (one := left.some.get(group.slot)) is None:
            return group
        self.add(group.slot, one.sha256, one.bytes)
        if same_texts([group], [one.group]):
            return group
        self.adopted = True
        return one.group

    def told_of(self, sampled: Sampled) -> Sampled:
        return replace(sampled, earlier=self.names, bytes_published=self.bytes, adopted=self.adopted)


@dataclass
class _Verdicts:
    """Collects the own groups with what they are worth."""

    groups: list[ScoredGroup] = field(default_factory=list)
    killed: int = 0
    errors: int = 0

    def add(self, group: RolloutGroup, score: GroupScore | ProtocolError, *, adopted: bool) -> ScoredGroup | None:
        """Add a group; None for one that a former life published, and that another version of its task refuses.

        Raises:
            ProtocolError: an own question cannot be regenerated: nothing that follows would be true.
        """
        if isinstance(score, ProtocolError):
            if not adopted:
                raise score
            logger.warning("rollouts.unscorable", round=group.round, slot=group.slot, error=str(score))
            return None
        asked = msgspec.structs.replace(group, question=score.question)
        self.groups.append(ScoredGroup(asked, score.rewards, score.answered))
        self.killed += score.killed
        self.errors += score.errors
        return self.groups[-1]


def _as_it_was(sampled: Sampled, left: LeftCompletions) -> Sampled:
    """Returns the groups with what a former life has published in the place of what comes out now."""
    early = _Early()
    groups = [early.as_it_was(group, left) for group in sampled.groups]
    sampled = replace(early.told_of(sampled), groups=groups, named=left.named)
    if left.some:
        _say_taken_up(sampled, len(left.some))
    if left.published:
        adopted = not same_texts(groups, left.published.groups)
        groups = left.published.groups if adopted else groups
        size = left.published.bytes
        sampled = replace(sampled, groups=groups, adopted=adopted, published=True, bytes_published=size)
        _say_taken_up(sampled, len(groups))
    return sampled


def _say_taken_up(sampled: Sampled, groups: int) -> None:
    logger.info("rollouts.taken_up", round=sampled.key.round, groups=groups, rewritten=not sampled.adopted)


class SampleFunction(Protocol):
    """Gives completions to some questions."""

    def __call__(self, questions: list[OwnQuestion], *, attempt: int = 0) -> Awaitable[list[RolloutGroup]]:
        """Attempts are counted from 0."""


def lacking(wanted: int, scores: Scores) -> int:
    """Returns how many groups with a signal are still missing of those that are wanted."""
    return wanted - sum(
        not isinstance(score, ProtocolError) and is_informative(score.rewards) for score in scores.values()
    )


def slots_before(sampled: CompletionsFile | None, local: int, attempts: int) -> int:
    """Returns the slots that a former life sampled for in so many attempts at most; I where it left nothing, or had
    one."""
    return max(local, min(local * attempts, len(sampled.groups) if sampled else 0))


async def sample_until_informative(
    ctx: WorkerContext, key: RoundKey, questions: list[OwnQuestion], sample: SampleFunction
) -> tuple[list[RolloutGroup], Scores]:
    """Groups to the questions of the first attempt and, while some have no signal and attempts are left, to the next.

    Returns:
        The groups of all attempts, by slot, and the scores of those that were looked at.
    """
    groups, scores, wanted = await sample(questions), Scores(), len(questions)
    asked, fresh = ctx.settings.local_groups, groups
    for attempt in range(1, ctx.settings.dynamic_sampling):
        found = await score_groups(ctx.task_source, fresh)
        scores |= {group.slot: score for group, score in zip(fresh, found, strict=True)}
        if not (missing := lacking(wanted, scores)):
            break
        more = [one for one in await ctx.ask(key, asked + missing) if one.slot >= asked]
        asked += missing
        fresh = await sample(more, attempt=attempt)
        groups = [*groups, *fresh]
    return groups, scores
