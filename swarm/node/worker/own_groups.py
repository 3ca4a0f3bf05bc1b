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
from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import partial

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
from swarm.node.worker.conversing import answers_to
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


class OwnGroups:
    """Makes them, or takes up those that were made before."""

    def __init__(self, ctx: WorkerContext, generator: Generator, files: RoundFiles) -> None:
        self._ctx = ctx
        self._generator = generator
        self._files = files
        self._asked: dict[RoundKey, list[OwnQuestion]] = {}
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
    async def ask(self, half: OwnHalf, clean: Set[str] = frozenset()) -> tuple[list[OwnQuestion], LeftCompletions]:
        """Ask the round's questions, and look what a former life left of it.

        Args:
            clean: peers with a clean record, whose answers of the stage before are looked at first.
        """
        with self._ctx.timed(half.seconds, "generate"):
            left = await self._left(half.key)
            count = self._slots(half.split.local, left)
            questions = [asked for asked in await self._ask(half.key, count) if asked.slot < count]
            if half.key.stage:
                questions = await self._ask_again(half.key, questions, left.sampled, clean)
            return questions, left

    async def generate(
        self, half: OwnHalf, asked: list[OwnQuestion], left: LeftCompletions, rounds_trained: int
    ) -> None:
        """Sample completions, or take up what a former life left.

        `queued` is set once the generation is in the line of the compute thread, or needs none. Conversations are in
        that line once they are over: all of their turns are the same policy's.

        Args:
            half: gets `sampled`, unless it was skipped meanwhile.
            rounds_trained: updates behind the policy.
        """
        if half.skipped or not any(one.question.turns > 1 for one in asked):
            half.queued.set()  # nothing waits between here and the compute thread's line
        if half.skipped:
            return
        if before := self._sampled_before(left, asked, rounds_trained):  # of all attempts
            assert left.sampled
            sampled = Sampled(half.key, before, left.sampled.rounds_trained, left.sampled.ahead)
        else:
            one_by_one = self._one_by_one and not half.ahead and not left.published
            sample = self._sample_one_by_one if one_by_one else self._sample_all
            sampled = await sample(Sampled(half.key, (), rounds_trained, half.ahead), left, asked, half.seconds)
            half.is_new = True
        half.queued.set()  # where all turns of conversations are said
        half.sampled = sampled = _as_it_was(sampled, left)
        if half.is_new:
            self._keep(sampled)

    def _slots(self, local: int, left: LeftCompletions) -> int:
        """Returns the slots that are asked for: I, or those that a former life's attempts went on to.

        What was published says itself what it answers.
        """
        sampled = len(left.sampled.groups) if left.sampled and not left.published else 0
        return max(local, min(local * self._ctx.settings.dynamic_sampling, sampled))

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

    async def _sample_one_by_one(
        self, sampled: Sampled, left: LeftCompletions, questions: list[OwnQuestion], seconds: Seconds
    ) -> Sampled:
        """Sample the groups; score and publish each that is ready while others are written, but for the last one."""
        send, receive = anyio.create_memory_object_stream[RolloutGroup](math.inf)
        scores, names, size = Scores(), dict[int, str](), 0

        def pass_on(group: RolloutGroup) -> None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the node has ended meanwhile
                send.send_nowait(group)

        def ready(number: int, completions: tuple[Completion, ...]) -> None:
            slot, question = questions[number]
            if question.turns == 1 and slot not in left.some:  # else it is only said in part, or there already
                group = self._group(sampled.key, slot, question, completions)
                self._ctx.compute.tell(partial(pass_on, group))

        async def publish_each() -> None:
            nonlocal size
            with receive:
                async for group in receive:
                    with self._ctx.timed(seconds, "score"):
                        (score,) = await score_groups(self._ctx.task_source, [group])
                    scores[group.slot] = score
                    if not isinstance(score, ProtocolError) and len(scores) + len(left.some) < len(questions):
                        file = to_rollouts(self._ctx, self._generator, sampled, [_scored(group, score)], timestamp=0.0)
                        names[group.slot], added = self._files.early(file, group.slot)
                        size += added

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(publish_each)
            with send:
                groups = await self._sample(sampled.key, questions, seconds, ready)
        return replace(sampled, groups=groups, scores=scores, earlier=names, bytes_published=size)

    async def publish(self, own: Own) -> int:
        """Give the groups to the peers, those that were published before by name; returns the bytes of all.

        Where nothing was answered nothing is published: a file without groups is refused.
        """
        sampled = own.sampled
        if sampled.published or not own.groups:
            return sampled.bytes_published
        if sampled.earlier:
            self._files.keep_early(sampled.key, sampled.earlier)
        rest = [scored for scored in own.groups if scored.group.slot not in sampled.earlier]
        now = self._ctx.clock.wall()
        file = to_rollouts(self._ctx, self._generator, sampled, rest, now, sampled.earlier)
        return sampled.bytes_published + await self._files.rollouts(file)

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
        return await until_readable(self._ctx, partial(what_is_left, early=self._one_by_one), self._ctx, key)

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
        self, sampled: Sampled, left: LeftCompletions, questions: list[OwnQuestion], seconds: Seconds
    ) -> Sampled:
        """Sample the groups. By dynamic sampling further ones, while some have no signal and attempts are left."""
        settings, scores = self._ctx.settings, Scores()
        questions = [one for one in questions if one.slot < settings.most_local_groups]
        groups = fresh = await self._sample(sampled.key, questions, seconds)
        asked, wanted = settings.local_groups, len(questions)
        for attempt in range(1, settings.dynamic_sampling):
            found = await score_groups(self._ctx.task_source, fresh)
            scores |= {group.slot: score for group, score in zip(fresh, found, strict=True)}
            known = [score for score in scores.values() if not isinstance(score, ProtocolError)]
            if not (missing := wanted - sum(is_informative(score.rewards) for score in known)):
                break
            more = [one for one in await self._ctx.ask(sampled.key, asked + missing) if one.slot >= asked]
            asked += missing
            fresh = await self._sample(sampled.key, more, seconds, attempt=attempt)
            groups = [*groups, *fresh]
        return replace(sampled, groups=groups, scores=scores)

    async def _sample(
        self,
        key: RoundKey,
        questions: list[OwnQuestion],
        seconds: Seconds,
        ready: Ready | None = None,
        attempt: int = 0,
    ) -> list[RolloutGroup]:
        """G completions to each question, as the generator answers them now."""

        def seed(turn: int) -> int:
            purpose: tuple[str | int, ...] = (*key, turn) if turn else key
            purpose = (*purpose, "attempt", attempt) if attempt else purpose
            return derive_seed(self._ctx.settings.seed, "generation", self._ctx.node_id, *purpose)

        size, timed = self._ctx.settings.generations, partial(self._ctx.timed, seconds, "generate")
        asked_of = [asked.question for asked in questions]
        answers = await answers_to(self._ctx, self._generator, asked_of, size, seed, timed=timed, ready=ready)
        return [
            self._group(key, *asked, completions)
            for asked, completions in zip(questions, answers, strict=True)
            if completions
        ]

    def _group(self, key: RoundKey, slot: int, question: Question, completions: tuple[Completion, ...]) -> RolloutGroup:
        return RolloutGroup(self._ctx.node_id, *key, slot, question, completions, self._generator.name)

    async def score(self, half: OwnHalf) -> None:
        """Score the completions, as boundedly as anybody's; fill `own` and set `scored`.

        Raises:
            ProtocolError: an own question cannot be regenerated: nothing that follows would be true.
        """
        assert half.sampled
        sampled, own = half.sampled, list[ScoredGroup]()
        with self._ctx.timed(half.seconds, "score"):
            scores = {} if sampled.adopted else dict(sampled.scores)
            unknown = [group for group in sampled.groups if group.slot not in scores]
            found = await score_groups(self._ctx.task_source, unknown)
            scores |= {group.slot: score for group, score in zip(unknown, found, strict=True)}
        killed = errors = 0
        for group in sampled.groups:
            score = scores[group.slot]
            if not isinstance(score, ProtocolError):
                own.append(_scored(group, score))
                killed, errors = killed + score.killed, errors + score.errors
            elif sampled.adopted:  # another version of its task made it
                logger.warning("rollouts.unscorable", round=group.round, slot=group.slot, error=str(score))
            else:
                raise score
        half.own = Own(sampled, own, killed, errors)
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
            _scored(group, score)
            for group, score in zip(groups, scores, strict=True)
            if not isinstance(score, ProtocolError)  # left out of the round as well
        ]

    async def _groups_again(self, left: LeftCompletions, key: RoundKey, count: int) -> list[RolloutGroup]:
        if groups := self._as_published(left):
            return groups
        questions = await self._ctx.ask(key, self._slots(count, left))
        if key.stage:
            questions = await self._asked_then(questions, left)
        if left.published is None and left.sampled and (groups := to_own_groups(left.sampled, questions)):
            return groups
        sampled = await self._sample_all(Sampled(key, (), 0), left, questions, defaultdict(float))
        if left.published is None or same_texts(sampled.groups, left.published.groups):
            return list(sampled.groups)
        return left.published.groups


def _scored(group: RolloutGroup, score: GroupScore) -> ScoredGroup:
    return ScoredGroup(msgspec.structs.replace(group, question=score.question), score.rewards, score.answered)


def _as_it_was(sampled: Sampled, left: LeftCompletions) -> Sampled:
    """Returns the groups with what a former life has published in the place of what comes out now."""
    if left.published:
        size = left.published.bytes
        adopted = not same_texts(sampled.groups, left.published.groups)
        groups = left.published.groups if adopted else sampled.groups
        sampled = replace(sampled, groups=groups, adopted=adopted, published=True, bytes_published=size)
        _say_taken_up(sampled, len(groups))
    elif left.some:
        names = {slot: one.sha256 for slot, one in left.some.items()}
        groups = [left.some[group.slot].group if group.slot in names else group for group in sampled.groups]
        sampled = replace(
            sampled,
            groups=groups,
            adopted=not same_texts(groups, sampled.groups),
            earlier={**names, **sampled.earlier},
            bytes_published=sampled.bytes_published + sum(one.bytes for one in left.some.values()),
        )
        _say_taken_up(sampled, len(names))
    return sampled


def _say_taken_up(sampled: Sampled, groups: int) -> None:
    logger.info("rollouts.taken_up", round=sampled.key.round, groups=groups, rewritten=not sampled.adopted)
