"""This node's answers to a judge, who asks one held-out question per round if there is one at all.

    judge/questions/round_R/{node}.json ─▶ one completion of the policy after update R ─▶ judge/answers/round_R/

The answer is generated after the round's reward was submitted, so that the coordinator does not wait for it; its draws
have a seed of their own, nothing is trained on it, and none of it is in the node's rewards: a run is the same with and
without a judge. Where there is none, a round costs one look at a file that is not there.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from anyio import to_thread

from swarm.algo.seeds import derive_seed
from swarm.errors import ProtocolError, StoreError
from swarm.logs import get_logger
from swarm.node.base.clock import Clock
from swarm.node.base.context import Compute
from swarm.records.read import read_file
from swarm.store.folder.publish import publish
from swarm.types import Completion, Policy
from swarm.wire.codec import encode
from swarm.wire.layout import Layout
from swarm.wire.messages import JudgeAnswer, JudgeQuestion, PolicyInfo

logger = get_logger(__name__)

LONGEST_PROMPT = 4096
"""Characters; the longest question of any task has about a thousand, and memory is planned for those."""


class HeldOutAnswers:
    """Answers what a judge asks this node."""

    def __init__(
        self, layout: Layout, node_id: str, *, seed: int, policy: Policy, executor: Compute, clock: Clock
    ) -> None:
        self._layout = layout
        self._node_id = node_id
        self._seed = seed
        self._policy = policy
        self._executor = executor
        self._clock = clock
        self._refused: Counter[str] = Counter()

    async def answer(self, round_: int, rounds_trained: int) -> None:
        """Answer this round's question, if there is one that can be read; never fails for what a judge wrote."""
        try:
            question = await to_thread.run_sync(self._question, round_)
        except ProtocolError as error:
            self._refused[error.reason] += 1
            logger.warning("question.refused", round=round_, reason=error.reason, detail=error.detail)
            return
        if question is None:
            return
        seed = derive_seed(self._seed, "judge", self._node_id, round_)
        generate = partial(self._policy.generate, [question.prompt], group_size=1, seed=seed)
        try:
            ((completion,),) = await self._executor.run(generate)
        except Exception as error:  # noqa: BLE001 - a stranger's text must not end a node; broken weights end its next step
            logger.warning("answer.failed", round=round_, error=f"{type(error).__name__}: {error}")
            return
        await self._publish(question, completion, rounds_trained)

    def take_refused(self) -> Counter[str]:
        """Questions refused since the last call, by reason."""
        taken, self._refused = self._refused, Counter()
        return taken

    def _question(self, round_: int) -> JudgeQuestion | None:
        path = self._layout.judge_question_file(round_, self._node_id)
        question = read_file(path, JudgeQuestion)
        if question is None:
            return None
        if (question.node, question.round) != (self._node_id, round_):
            raise ProtocolError(
                "misplaced",
                f"{path} expected to ask {self._node_id!r} in round {round_}, "
                f"got {question.node!r} in round {question.round}",
            )
        if not 0 < len(question.prompt) <= LONGEST_PROMPT:
            raise ProtocolError(
                "oversized",
                f"{path} expected a prompt of 1 to {LONGEST_PROMPT} characters, got {len(question.prompt)}",
            )
        return question

    async def _publish(self, question: JudgeQuestion, completion: Completion, rounds_trained: int) -> None:
        """Without fsync, as a vote: who loses power has other worries, and the judge asks again next round."""
        answer = JudgeAnswer(
            peer_id=self._node_id,
            round=question.round,
            question_id=question.question_id,
            response=completion.text,
            answered_at=self._clock.wall(),
            finished=completion.finished,
            policy=PolicyInfo(model=self._policy.name, rounds_trained=rounds_trained),
        )
        target = self._layout.judge_answer_file(question.round, self._node_id)
        temporary = self._layout.temporary(self._node_id)
        try:
            await to_thread.run_sync(partial(publish, target, encode(answer), temporary, durable=False))
        except StoreError as error:
            logger.warning("answer.failed", round=question.round, error=str(error))
