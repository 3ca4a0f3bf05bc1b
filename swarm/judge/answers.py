"""Reads the answer to a judge's question, or refuses it: its writer is a stranger, like every node."""

from __future__ import annotations

from swarm.errors import ProtocolError
from swarm.judge.judge_machine import Slot
from swarm.records.files import read_form
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.messages import JudgeAnswer

MOST_BYTES = 256 * 1024
"""Of an answer file: many times the longest completion."""


def read_answer(run: Run, slot: Slot, question_id: str) -> JudgeAnswer:
    """A node's answer. Blocking.

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
