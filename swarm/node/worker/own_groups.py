"""A node's own groups of one round: questions, completions, rewards.

    questions ─generator─▶ sampled ──▶ completions file (round_files.py) and, at the same time, the scoring children
                              ▲
    completions file ─────────┤ of a former life that died in this round: taken up as they were sampled
    rollouts file ────────────┘ without token ids, where nothing else tells what had been published

What a generator samples is a function of its weights and of seed, node and round, so on a CPU a node that comes back
samples again what it had published. On a GPU it may not; then what was published stays, and is encoded from its text.
Where each request is paid for, a node on a CPU writes no completions file, unless it generates ahead.
"""

from __future__ import annotations

from functools import partial

import msgspec

from swarm.algo.seeds import derive_seed
from swarm.errors import ProtocolError
from swarm.logs import get_logger
from swarm.node.base.log_once import until_readable
from swarm.node.sharing.verification import score_groups
from swarm.node.worker.context import WorkerContext
from swarm.node.worker.own_completions import Left, same_texts, to_file, to_own_groups, what_is_left
from swarm.node.worker.round_files import RoundFiles
from swarm.node.worker.round_work import RoundWork
from swarm.records.listing import rounds_in
from swarm.types import Generator, Question, RolloutGroup, RoundKey, ScoredGroup
from swarm.wire import keys
from swarm.wire.messages import CompletionsFile

logger = get_logger(__name__)


class OwnGroups:
    """Makes them, or takes up those that were made before."""

    def __init__(self, ctx: WorkerContext, generator: Generator, files: RoundFiles) -> None:
        self._ctx = ctx
        self._generator = generator
        self._files = files
        self._asked: dict[RoundKey, list[Question]] = {}
        self._of_a_former_life: frozenset[int] | None = None
        """Where requests are spared: the rounds in which something of it may lie, as listed when this life began."""

    async def ask_early(self, key: RoundKey) -> None:
        """Have the questions of a later round at hand: nothing about them depends on an update."""
        self._asked = {key: await self._ask(key)}

    async def _ask(self, key: RoundKey) -> list[Question]:
        """As many as the round may need: its split may not be known yet, and takes the first I of them."""
        return self._asked.pop(key, None) or await self._ctx.ask(key, self._ctx.settings.most_local_groups)

    # ── a round as it is lived ──────────────────────────────────────────────────────────────────────────────────────
    async def make(self, work: RoundWork, rounds_trained: int) -> None:
        """Fill `groups`; `queued` is set once the generation is in the line of the compute thread, or needs none.

        Args:
            rounds_trained: updates behind the policy.
        """
        work.rounds_trained = rounds_trained
        with self._ctx.timed(work.seconds, "generate"):
            left = await self._left(work.key)
            questions = (await self._ask(work.key))[: work.split.local]
        work.queued.set()  # nothing waits between here and the compute thread's line
        if work.skipped:
            return
        if groups := self._sampled_before(left, questions, rounds_trained):
            assert left.sampled
            work.groups, work.ahead = groups, left.sampled.ahead
            work.rounds_trained = left.sampled.rounds_trained
        else:
            sample = partial(self.sample, work.key, questions)
            work.groups = await self._ctx.compute_timed(work.seconds, "generate", sample)
        if left.published:
            work.published, work.bytes_published = True, left.published.bytes
            work.adopted = not same_texts(work.groups, left.published.groups)
            work.groups = left.published.groups if work.adopted else work.groups
            logger.info("rollouts.taken_up", round=work.key.round, groups=len(work.groups), rewritten=not work.adopted)
        if not groups and not work.adopted and self._keeps_what_it_samples():
            file = to_file(work.groups, self._generator.tokenizer, rounds_trained, ahead=work.ahead)
            if file:
                self._files.completions(file)

    def _keeps_what_it_samples(self) -> bool:
        """Not where a write is paid for and a redo samples the same once more."""
        settings = self._ctx.settings
        return not (settings.sparing and settings.staleness == 0 and self._generator.repeats)

    async def _left(self, key: RoundKey) -> Left:
        """Of a former life. Where requests are spared it is looked for in the first round, in those that may have been
        generated ahead, and in those that had rollouts when this life began: a forged clock may have led the former one
        further than this one goes."""
        if self._ctx.settings.sparing:
            if self._of_a_former_life is None:
                published = await until_readable(self._ctx, rounds_in, self._ctx.run.store, keys.ROLLOUTS)
                ahead = range(key.round, key.round + self._ctx.settings.staleness + 1)
                self._of_a_former_life = frozenset((*ahead, *published))
            if key.round not in self._of_a_former_life:
                return Left(None, None)
        return await until_readable(self._ctx, what_is_left, self._ctx, key)

    def _sampled_before(self, left: Left, questions: list[Question], rounds_trained: int) -> list[RolloutGroup] | None:
        """What a former life sampled for this round; None: nothing that this one would, or has published."""
        if left.published:
            return self._as_published(left)
        if left.sampled is None or not self._fits(left.sampled):
            return None
        updates = rounds_trained - left.sampled.rounds_trained  # else rounds were lost since, and with them its policy
        return to_own_groups(left.sampled, questions) if 0 <= updates <= self._ctx.settings.staleness else None

    def _as_published(self, left: Left) -> list[RolloutGroup] | None:
        """The published groups with their token ids."""
        if left.published is None or left.sampled is None or not self._fits(left.sampled):
            return None
        groups = to_own_groups(left.sampled, [group.question for group in left.published.groups])
        return groups if groups and same_texts(groups, left.published.groups) else None

    def _fits(self, file: CompletionsFile) -> bool:
        size = self._ctx.settings.generations
        same_size = all(len(group.completions) == size for group in file.groups)
        return same_size and file.tokenizer == self._generator.tokenizer

    def sample(self, key: RoundKey, questions: list[Question]) -> list[RolloutGroup]:
        """G completions to each question, as the generator answers them now. Blocking, for Compute."""
        answers = self._generator.generate(
            [question.prompt for question in questions],
            group_size=self._ctx.settings.generations,
            seed=derive_seed(self._ctx.settings.seed, "generation", self._ctx.node_id, *key),
        )
        return [
            RolloutGroup(self._ctx.node_id, *key, slot, question, completions, self._generator.name)
            for slot, (question, completions) in enumerate(zip(questions, answers, strict=True))
        ]

    async def score(self, work: RoundWork) -> None:
        """Score the completions, as boundedly as anybody's; fill `own` and set `scored`."""
        with self._ctx.timed(work.seconds, "score"):
            scores = await score_groups(self._ctx.task_source, work.groups)
        for group, score in zip(work.groups, scores, strict=True):
            if isinstance(score, ProtocolError):
                if not work.adopted:
                    raise score  # an own question cannot be regenerated: nothing that follows would be true
                logger.warning("rollouts.unscorable", round=work.key.round, slot=group.slot, error=str(score))
                continue  # published before a crash, by another version of the task
            asked = msgspec.structs.replace(group, question=score.question)
            work.own.append(ScoredGroup(asked, score.rewards, score.answered))
            work.killed += score.killed
            work.errors += score.errors
        work.scored.set()

    # ── a round as it was lived ─────────────────────────────────────────────────────────────────────────────────────
    async def again(self, key: RoundKey, count: int, *, published: bool) -> list[ScoredGroup]:
        """The groups of a round that is done already: as sampled then, else sampled again, else as published.

        Args:
            count: own questions of the round.
            published: whether its row says that the groups were published.

        Raises:
            ProtocolError: `gone`, they were published and are not there any more.
        """
        left = await until_readable(self._ctx, what_is_left, self._ctx, key)
        if left.published is None and published:
            raise ProtocolError(reason="gone", detail="this node's own groups are not in the folder any more")
        groups = await self._groups_again(left, key, count)
        scores = await score_groups(self._ctx.task_source, groups)
        return [
            ScoredGroup(msgspec.structs.replace(group, question=score.question), score.rewards, score.answered)
            for group, score in zip(groups, scores, strict=True)
            if not isinstance(score, ProtocolError)  # left out of the round as well
        ]

    async def _groups_again(self, left: Left, key: RoundKey, count: int) -> list[RolloutGroup]:
        if groups := self._as_published(left):
            return groups
        questions = await self._ctx.ask(key, count)
        if left.published is None and left.sampled and (groups := to_own_groups(left.sampled, questions)):
            return groups
        sampled = await self._ctx.compute.run(self.sample, key, questions)
        if left.published is None or same_texts(sampled, left.published.groups):
            return sampled
        return left.published.groups
