"""Is this file the answer to the question that was asked? Its writer is a stranger, like every node."""

from __future__ import annotations

from swarm.errors import ProtocolError
from swarm.judge.judge_machine import Slot
from swarm.records.read import read_file
from swarm.wire.layout import Layout
from swarm.wire.messages import JudgeAnswer

MOST_BYTES = 256 * 1024
"""Of an answer file: many times the longest completion."""


def read_answer(layout: Layout, slot: Slot, question_id: str) -> JudgeAnswer:
    """A node's answer. Blocking.

    Raises:
        ProtocolError: `misplaced` (it speaks for another node or round than its path), `wrong_question`, `unreadable`
            (gone since it was seen), or what read_file refuses.
    """
    path = layout.judge_answer_file(slot.round, slot.node)
    answer = read_file(path, JudgeAnswer, limit=MOST_BYTES)
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
