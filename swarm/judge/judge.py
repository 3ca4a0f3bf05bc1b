"""The judge daemon: carries out what JudgeMachine decides. Loads no model and imports no torch.

    state/, peers/, judge/answers/ ──wake-up, or each second──▶ look ─▶ JudgeMachine ─┬▶ ask   ─▶ judge/questions/
                                                                 ▲                    └▶ score ─▶ scoring children
                                                                 └── all at the same time ──────▶ logs/judge/

It is no peer: it registers nowhere, and nobody waits for it or knows whether it is there. All it remembers is in the
folder, so it may be stopped and started at any time; one judge per experiment.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection

import anyio
import msgspec
from msgspec import UNSET

from swarm.config import Settings
from swarm.errors import ExperimentError, ProtocolError, StoreError
from swarm.judge.judge_machine import JudgeLook, JudgeMachine, Slot, SteadyClock
from swarm.judge.questions import HeldOutQuestions, questions_of
from swarm.logs import get_logger
from swarm.records.files import read_experiment, read_form, read_peers, read_state
from swarm.records.listing import entries, nodes_in
from swarm.records.liveness import Liveness
from swarm.records.rows import read_judged
from swarm.store.base import Blocking, Kind, Store
from swarm.store.run import Run
from swarm.store.wake_ups import wake_ups
from swarm.tasks.registry import NO_TASKS, Families
from swarm.tasks.scoring import FULL_ANSWER, Scorer
from swarm.types import Completion
from swarm.wire import keys
from swarm.wire.codec import earlier_turns, encode
from swarm.wire.judge_messages import JudgeAnswer, JudgedRow, JudgeQuestion
from swarm.wire.messages import ExperimentFile

logger = get_logger(__name__)

SETTLE_BEATS = 3
"""Heartbeats for which a jump of the clock has to stay: a coordinator that lives writes over it within one."""
MOST_BYTES = 256 * 1024
"""Bytes of an answer file: many times the longest completion."""


class Judge:
    """Asks every live worker of one experiment one held-out question per round, and scores the answers."""

    def __init__(
        self,
        settings: Settings,
        run: Run,
        scorer: Scorer,
        blocking: Blocking,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        """`run`: opened with JUDGE as its writer."""
        self._settings = settings
        self._run = run
        self._blocking = blocking.run
        self._scorer = scorer
        self._families = Families(settings.task_families, settings.task_table or NO_TASKS)
        self._monotonic = monotonic
        self._wall = wall
        self._sleep = sleep
        self._liveness = Liveness(settings.cadence.liveness_timeout)
        self._clock = SteadyClock(SETTLE_BEATS * settings.cadence.heartbeat_interval)
        self._appending = anyio.Lock()
        self.counts: Counter[str] = Counter()
        """Counts of this process: asked, recorded, and refused answers by reason."""
        self._scope = anyio.CancelScope()
        self._stop_code = 0
        self._questions: HeldOutQuestions
        self._machine: JudgeMachine

    async def run(self) -> int:
        """Run until the experiment is finished and every answer that can come is recorded, or somebody stops it.

        Returns:
            The exit code: 0 finished, else that of `stop`.

        Raises:
            ExperimentError: the experiment's own file makes no sense.
            ScoringError: no scoring child can be kept alive.
        """
        with self._scope:
            self._questions = await self._wait_for_experiment()
            self._machine = await self._blocking(self._take_up)
            await self._judge()
        logger.info("judge.finished", exit_code=self._stop_code, **self.counts)
        return self._stop_code

    def stop(self, exit_code: int) -> None:
        """End with this exit code; the next judge goes on from the folder."""
        logger.info("judge.stopping", exit_code=exit_code)
        self._stop_code = exit_code
        self._scope.cancel()

    # ── begin ───────────────────────────────────────────────────────────────────────────────────────────────────────
    async def _wait_for_experiment(self) -> HeldOutQuestions:
        """The coordinator says what the experiment is when it begins; the judge may have been started before."""
        while True:
            if experiment := await self._blocking(self._read_experiment):
                return questions_of(experiment, self._settings)
            await self._sleep(self._settings.cadence.heartbeat_interval)

    def _read_experiment(self) -> ExperimentFile | None:
        try:
            return read_experiment(self._run)
        except ProtocolError as error:
            raise ExperimentError(f"{error}; restore the file, or choose another --experiment") from None

    def _take_up(self) -> JudgeMachine:
        recorded = self._recorded()
        asked = _slots(self._run.store, keys.JUDGE_QUESTIONS)
        logger.info("judge.ready", experiment=self._run.experiment, asked=len(asked), recorded=len(recorded))
        return JudgeMachine(asked, recorded)

    def _recorded(self) -> set[Slot]:
        return {Slot(row.round, row.node_id) for row in read_judged(self._run)}

    # ── look ────────────────────────────────────────────────────────────────────────────────────────────────────────
    async def _judge(self) -> None:
        prefixes = [keys.STATE.partition("/")[0], keys.JUDGE_ANSWERS]
        interval = min(self._settings.cadence.reconcile_interval, self._settings.cadence.heartbeat_interval)
        hints = self._settings.cadence.watch == "auto"
        async with wake_ups(self._run.store, prefixes, interval, self._sleep, hints=hints) as wakes:
            async for _ in wakes:
                try:
                    look = await self._blocking(self._look, self._machine.awaited_rounds)
                except (StoreError, ProtocolError) as error:
                    logger.warning("judge.cannot_look", error=str(error))
                    continue
                await self._carry_out(look)
                if self._machine.is_over(look):
                    return

    def _look(self, awaited_rounds: list[int]) -> JudgeLook:
        """The peers first: of one that has stopped by then, every answer is there already."""
        state = self._clock.observe(read_state(self._run), self._monotonic())
        for peer in read_peers(self._run):
            self._liveness.observe(peer, self._monotonic(), self._wall())
        answers = _slots(self._run.store, keys.JUDGE_ANSWERS, awaited_rounds) if awaited_rounds else ()
        return JudgeLook(
            round=state.round if state else -1,
            finished=state.finished if state else False,
            live=self._liveness.live(self._monotonic(), role="worker"),
            answers=frozenset(answers),
            max_rounds=state.max_rounds if state else 0,
        )

    # ── carry out ───────────────────────────────────────────────────────────────────────────────────────────────────
    async def _carry_out(self, look: JudgeLook) -> None:
        due = self._machine.look(look)
        async with anyio.create_task_group() as tasks:
            for slot in due.ask:
                tasks.start_soon(self._ask, slot)
            for slot in due.score:
                tasks.start_soon(self._score, slot)

    async def _ask(self, slot: Slot) -> None:
        request = self._questions.request(slot)
        (made,) = await self._scorer.make([request])
        question = JudgeQuestion(
            round=slot.round,
            node=slot.node,
            profile=request.profile,
            question_id=self._questions.question_id(slot),
            prompt=made.prompt,
            asked_at=self._wall(),
            task=request.full_task,
            origin=made.known_origin() if made.turns > 1 else UNSET,
        )
        try:
            await self._blocking(self._run.store.put, keys.judge_question(slot.round, slot.node), encode(question))
        except StoreError as error:
            logger.warning("question.failed", round=slot.round, node=slot.node, error=str(error))
            return
        self.counts["asked"] += 1
        self._machine.asked(slot)

    async def _score(self, slot: Slot) -> None:
        request, question_id = self._questions.request(slot), self._questions.question_id(slot)
        try:
            answer = await self._blocking(read_answer, self._run, slot, question_id)
            said = Completion(answer.response, answer.finished, earlier=earlier_turns(answer.turns))
            score = await self._scorer.score(self._families.origin(request), None, [said])
        except ProtocolError as error:
            self.counts[f"refused_{error.reason}"] += 1
            logger.warning("answer.refused", round=slot.round, node=slot.node, reason=error.reason, detail=error.detail)
            self._machine.closed(slot)
            return
        except StoreError as error:  # the answer is there at the next look as well
            logger.warning("answer.unreadable", round=slot.round, node=slot.node, error=str(error))
            return
        await self._record(slot, self._row(slot, answer, score.rewards[0], score.answered[0]))

    def _row(self, slot: Slot, answer: JudgeAnswer, reward: float, answered: bool) -> JudgedRow:
        request = self._questions.request(slot)
        return JudgedRow(
            timestamp=self._wall(),
            round=slot.round,
            node_id=slot.node,
            task=request.full_task,
            profile=request.profile,
            question_id=answer.question_id,
            reward=reward,
            full_answer=reward >= FULL_ANSWER,
            answered=answered,
            experiment=self._run.experiment,
            model=answer.policy.model[:80],
            rounds_trained=answer.policy.rounds_trained,
            finished=answer.finished,
        )

    async def _record(self, slot: Slot, row: JudgedRow) -> None:
        async with self._appending:
            if not await self._blocking(self._append, row):
                return
        self.counts["recorded"] += 1
        logger.info(
            "answer.recorded",
            round=slot.round,
            node=slot.node,
            task=row.task,
            answered=row.answered,
            reward=row.reward,
        )
        self._machine.closed(slot)

    def _append(self, row: JudgedRow) -> bool:
        """Appends a row; False if it is not there. After an error the file decides, so that no row goes in twice."""
        try:
            self._run.store.append_records(keys.JUDGED, [msgspec.json.encode(row)], durable=True)
        except StoreError as error:
            logger.warning("answer.record_failed", round=row.round, node=row.node_id, error=str(error))
            return Slot(row.round, row.node_id) in self._recorded()
        return True


def read_answer(run: Run, slot: Slot, question_id: str) -> JudgeAnswer:
    """Returns a node's answer. Blocking.

    Raises:
        ProtocolError: `misplaced` (it speaks for another node or round than its path), `wrong_question`, `unreadable`
            (gone since it was seen), or what read_form refuses.
    """
    key = keys.judge_answer(slot.round, slot.node)
    path = run.store.describe(key)
    answer = read_form(run.store, key, JudgeAnswer, limit=MOST_BYTES)
    if answer is None:
        raise ProtocolError("unreadable", f"{path} was there and is gone")
    if (answer.peer_id, answer.round) != (slot.node, slot.round):
        raise ProtocolError(
            "misplaced",
            f"{path} expected to speak for {slot.node!r} in round {slot.round}, "
            f"got {answer.peer_id!r} in round {answer.round}",
        )
    if answer.question_id != question_id:
        raise ProtocolError(
            "wrong_question", f"{path} expected to answer question {question_id}, got {answer.question_id[:40]!r}"
        )
    return answer


def _slots(store: Store, prefix: str, rounds: Collection[int] | None = None) -> set[Slot]:
    """Returns whose files lie in the rounds of a prefix; what a stranger put in the place of a round's folder holds
    none."""
    found = set()
    for entry in entries(store, prefix):
        round_ = keys.round_of(entry.name)
        if round_ is not None and entry.kind is Kind.PREFIX and (rounds is None or round_ in rounds):
            found |= {Slot(round_, node) for node in nodes_in(store, f"{prefix}/{entry.name}")}
    return found
