"""The core's own features that join in a round, and the choice of those that are on by a node's settings.

plugins               anywhere                       those that are on (Settings.plugins)
a judge's questions   after the row, columns         always: a judge may come at any time
hints                 after the row                  always
foreseeing            after the own half             always
peers' rewards        columns                        an evaluator

HeldOutAnswers answers a judge, who asks one held-out question per round if there is one at all.

    judge/questions/round_R/{node}.json ─▶ one completion of the policy after update R ─▶ judge/answers/round_R/

The answer is generated after the round's reward was submitted, so that the coordinator does not wait for it; its draws
have a seed of their own, nothing is trained on it, and none of it is in the node's rewards: a run is the same with and
without a judge. Where there is none, a round costs one look at a file that is not there; where each look is paid for,
every fourth round does.

HintLog and Foreseeing say in a node's own log, once each, what nothing fails of and is worth knowing.

HintLog      every few rounds: what makes the node useless (swarm.records.hints)
Foreseeing   in its first round: how long one takes, and whether the clock allows it (swarm.records.round_forecast)
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import msgspec

from swarm.algo.advantages import is_informative
from swarm.algo.seeds import derive_seed
from swarm.entry_points import HOOKS, of_plugins
from swarm.errors import ProtocolError, StoreError, SwarmError
from swarm.logs import get_logger
from swarm.node.base.context import NodeContext
from swarm.node.worker.context import WorkerContext
from swarm.node.worker.conversing import answers_to
from swarm.node.worker.hooks import AfterAgain, ColumnsHook, Hooks, PluginHooks, all_plugins, nothing, together
from swarm.node.worker.row import mean_rewards
from swarm.node.worker.steps import OwnHalf, PlayedRound
from swarm.records.files import constant_j, read_clock, read_experiment
from swarm.records.hints import FEW, KEPT, HintFacts, Recent, hints_of, recent
from swarm.records.liveness import EVALUATOR
from swarm.records.reader import snapshot
from swarm.records.round_forecast import RoundForecast
from swarm.tasks.family import QuestionRequest
from swarm.types import Completion, Generator, Groups, Question, Trainer
from swarm.wire import keys
from swarm.wire.codec import decode, encode, turn_entries
from swarm.wire.judge_messages import JudgeAnswer, JudgeQuestion
from swarm.wire.messages import PolicyInfo
from swarm.wire.metrics import MetricsRow

OF_PEERS = "nothing-heard"
"""Code of the hint that only the rows of peers explain."""
logger = get_logger(__name__)

LONGEST_PROMPT = 4096
"""Characters; the longest question of any task has about a thousand, and memory is planned for those."""
LARGEST = 64 * 1024
"""Bytes of a question's file."""
APART = 4
"""Rounds without a question after which it is looked for in every APART-th alone, where looks are spared."""


class HeldOutAnswers:
    """Answers what a judge asks this node."""

    def __init__(self, ctx: WorkerContext, generator: Generator) -> None:
        self._ctx = ctx
        self._generator = generator
        self._refused: Counter[str] = Counter()
        self._asked: int | None = None
        """The last round with a question."""

    async def after_row(self, row: MetricsRow, rounds_trained: int) -> None:
        """Answer once the round's last stage is submitted."""
        if row.stage == self._ctx.settings.max_stages - 1:
            await self.answer(row.round, rounds_trained)

    @asynccontextmanager
    async def again(self, row: MetricsRow) -> AsyncIterator[AfterAgain]:
        """Answers after the last stage of a round that is redone."""
        after: AfterAgain = nothing
        if row.stage == self._ctx.settings.max_stages - 1:
            after = partial(self.answer_again, row.round)
        yield after

    def fill(self, row: MetricsRow, _: PlayedRound) -> None:
        """Counts the questions refused since the row before, by reason."""
        taken, self._refused = self._refused, Counter()
        row.refused_files = dict(Counter(row.refused_files) + taken)

    async def answer_again(self, round_: int, rounds_trained: int) -> None:
        """Answers in a round that is redone, if the kill came before the answer."""
        place, store = keys.judge_answer(round_, self._ctx.node_id), self._ctx.run.store
        try:
            there = await self._ctx.blocking.run(store.stat, place)
        except (ProtocolError, StoreError):  # a stranger's link, or a folder that is away: the judge does without
            return
        if there is None:
            await self.answer(round_, rounds_trained)

    async def answer(self, round_: int, rounds_trained: int) -> None:
        """Answer this round's question, if there is one that can be read; never fails for what a judge wrote."""
        if not self._may_be_asked(round_):
            return
        try:
            question = await self._ctx.blocking.run(self._question, round_)
        except ProtocolError as error:
            self._refused[error.reason] += 1
            logger.warning("question.refused", round=round_, reason=error.reason, detail=error.detail)
            return
        except StoreError as error:
            logger.warning("question.unreadable", round=round_, error=str(error))
            return
        if question is None:
            return
        self._asked = round_
        try:
            ((completion,),) = await self._answers(question)
        except Exception as error:  # noqa: BLE001 - a stranger's text must not end a node; broken weights end its next step
            logger.warning("answer.failed", round=round_, error=f"{type(error).__name__}: {error}")
            return
        await self._publish(question, completion, rounds_trained)

    def _may_be_asked(self, round_: int) -> bool:
        lately = self._asked is not None and round_ - self._asked <= APART
        return lately or round_ % APART == 0 or not self._ctx.settings.sparing

    async def _answers(self, question: JudgeQuestion) -> Groups:
        made = await self._ctx.task_source.make([QuestionRequest.of(question.origin)]) if question.origin else []
        asked = msgspec.structs.replace(made[0] if made else Question("", None), prompt=question.prompt)

        def seed(turn: int) -> int:
            purpose = (question.round, turn) if turn else (question.round,)
            return derive_seed(self._ctx.settings.seed, "judge", self._ctx.node_id, *purpose)

        return await answers_to(self._ctx, self._generator, [asked], 1, seed)

    def _question(self, round_: int) -> JudgeQuestion | None:
        place, node = keys.judge_question(round_, self._ctx.node_id), self._ctx.node_id
        where = self._ctx.run.store.describe(place)
        try:
            question = decode(self._ctx.run.store.get(place, LARGEST).data, JudgeQuestion, where)
        except FileNotFoundError:
            return None
        if (question.node, question.round) != (node, round_):
            raise ProtocolError("misplaced", f"{where} asks {question.node!r} in round {question.round}")
        if not 0 < len(question.prompt) <= LONGEST_PROMPT:
            raise ProtocolError("oversized", f"{where} has a prompt of {len(question.prompt)} characters")
        return question

    async def _publish(self, question: JudgeQuestion, completion: Completion, rounds_trained: int) -> None:
        """Publishes an answer without fsync, as a vote: who loses power has other worries, and the judge asks again
        next round."""
        answer = JudgeAnswer(
            peer_id=self._ctx.node_id,
            round=question.round,
            question_id=question.question_id,
            response=completion.text,
            answered_at=self._ctx.clock.wall(),
            finished=completion.finished,
            turns=turn_entries(completion),
            policy=PolicyInfo(model=self._generator.name, rounds_trained=rounds_trained),
        )
        place, store = keys.judge_answer(question.round, self._ctx.node_id), self._ctx.run.store
        try:
            await self._ctx.blocking.run(store.put, place, encode(answer), durable=False)
        except StoreError as error:
            logger.warning("answer.failed", round=question.round, error=str(error))


class HintLog:
    """Logs each hint about one node once."""

    def __init__(self, ctx: WorkerContext) -> None:
        self._ctx = ctx
        self._rows: deque[Recent] = deque(maxlen=KEPT)
        self._said: set[str] = set()
        self._facts: HintFacts | None = None

    async def after_row(self, row: MetricsRow, _: int) -> None:
        """Takes note of a round, and looks every few of them."""
        self._rows.append(recent(row))
        if len(self._rows) < FEW or row.round % FEW:
            return
        self._facts = self._facts or HintFacts(
            generations=self._ctx.settings.generations,
            trains=self._ctx.settings.trains,
            experiment=self._ctx.settings.experiment,
            external_groups=await self._ctx.blocking.run(self._external_groups),
            round_interval=self._ctx.settings.round_interval if self._ctx.settings.clock == "coordinator" else 0.0,
        )
        node = self._ctx.node_id
        new = [hint for hint in hints_of(node, self._rows, self._facts) if hint.code not in self._said]
        if any(hint.code == OF_PEERS for hint in new):  # why is in the rows of others, which are read for this alone
            new = [*hints_of(node, self._rows, await self._ctx.blocking.run(self._with_slow_peers, self._facts))]
        for hint in new:
            if hint.code not in self._said:
                self._said.add(hint.code)
                logger.warning("hint", code=hint.code, evidence=hint.evidence, remedy=hint.remedy, page=hint.page)

    def _with_slow_peers(self, facts: HintFacts) -> HintFacts:
        """Returns the facts with the peers for which a round of the clock is too short. Blocking."""
        try:
            now = snapshot(self._ctx.run)
            slow = {peer: seconds for peer, seconds in now.slow.items() if peer != self._ctx.node_id}
        except SwarmError:
            return facts
        return facts._replace(slow=slow, round_interval=now.state.round_interval if now.state else 0.0)

    def _external_groups(self) -> int:
        """J of the experiment, 0 where it is not fixed, or nobody says. Blocking."""
        try:
            return constant_j(read_experiment(self._ctx.run)) or 0
        except SwarmError:
            return 0


class Foreseeing:
    """Logs once how long a round takes, in the first with groups of this node's own."""

    def __init__(self, ctx: WorkerContext) -> None:
        self._ctx, self._settings = ctx, ctx.settings
        self._forecast = False

    async def after_own_half(self, half: OwnHalf) -> None:
        """Says how long a round takes, as soon as the own answers and their part of the update have shown it."""
        if self._forecast or not half.is_new or not half.own or not half.own.groups:
            return
        self._forecast = True
        found = forecast(half, await self._ctx.blocking.run(self._interval))
        said: dict[str, Any] = {
            "forecast": found.line,
            "rewards": found.earned_line(self._settings.model, self._settings.experiment),
        }
        said |= msgspec.structs.asdict(found)
        if found.fits:
            logger.info("round.forecast", **said)
        else:
            logger.warning("round.forecast", **said)

    def _interval(self) -> float:
        """Returns the longest that the clock lets a round last, seconds; 0.0: this node keeps its own. Blocking."""
        if self._settings.clock == "own":
            return 0.0
        with suppress(SwarmError):
            if state := read_clock(self._ctx.run).state:
                return state.round_interval
        return self._settings.round_interval


def forecast(half: OwnHalf, interval: float) -> RoundForecast:
    """Returns what a round takes by its own half: an external group is learned from as long as an own one."""
    assert half.own
    rewards = [reward for scored in half.own.groups for reward in scored.rewards]
    informative = sum(is_informative(scored.rewards) for scored in half.own.groups)
    train = half.seconds.get("train", 0.0)
    return RoundForecast(
        answering=half.seconds.get("generate", 0.0) + half.seconds.get("score", 0.0),
        learning=train * (1 + half.split.external / informative) if informative else None,
        interval=interval,
        answers=len(rewards),
        earned=sum(reward > 0 for reward in rewards),
        task=half.own.groups[0].group.question.task,
    )


def plugin_hooks_of(ctx: NodeContext) -> PluginHooks:
    """Returns what the plugins that are on add to a node, in their order; of others nothing is imported.

    Raises:
        ConfigError: one of them cannot be imported.
    """
    return all_plugins([one for join in of_plugins(HOOKS, ctx.settings.plugins) for one in join(ctx)])


def hooks_of(plugins: PluginHooks, ctx: WorkerContext, generator: Generator, trainer: Trainer) -> Hooks:
    """Returns the other hooks, those of plugins and the node's own, in the order in which they join in."""
    settings = ctx.settings
    held_out = HeldOutAnswers(ctx, generator)
    columns: list[ColumnsHook] = [held_out.fill]
    columns += [_fill_peer_rewards] if settings.role == EVALUATOR else []
    own = Hooks(
        after_own_half=(Foreseeing(ctx).after_own_half,),
        columns=tuple(columns),
        after_row=(HintLog(ctx).after_row, held_out.after_row),
        again=(held_out.again,),
    )
    return together([plugins.rounds(ctx, generator, trainer), own])


def _fill_peer_rewards(row: MetricsRow, played: PlayedRound) -> None:
    """Tells what an evaluator, who answers nothing itself, found that its peers' answers are worth."""
    row.peer_rewards = mean_rewards(played.drawn.sample.groups)
