"""The process that makes questions and scores answers: imports the task families once, then serves each batch in a
bounded, sandboxed fork.

    stdin ──batch──▶ serve ── fork ──▶ regenerate, compare all; score all ──▶ validate ──replies──▶ stdout

    waits for   a batch on stdin; end of file there (the node is gone) ends the server
    unblocks    one message of replies per batch

Run as `python -m swarm.tasks.scoring_server FAMILY ...`. Where the child of a batch does not come to its end, what it
emitted counts and the node asks for the rest again, one by one. A lone group whose child does not come to its end is
scored answer by answer, each in a child with limits of its own, so that such an answer costs its author alone.

All questions are made before any answer is read. From then on the child has seen hostile text, and only
`swarm.tasks.sandbox` stands between an answer and the rewards of the groups that follow in its batch. Between it
and the machine stand the limits of `swarm.tasks.bounded` and the bars of `swarm.tasks.bars` too, as many as there are.
"""

from __future__ import annotations

import functools
import gc
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

import msgspec

from swarm.errors import ProtocolError
from swarm.tasks import bounded, sandbox
from swarm.tasks.bars import NO_BARS, Bars, put_up
from swarm.tasks.bounded import Emit, Limits, run_bounded
from swarm.tasks.frames import HEADER_BYTES, frame, payload_length
from swarm.tasks.registry import Families
from swarm.tasks.scoring_messages import (
    Batch,
    Made,
    MakeQuestions,
    Ready,
    Refused,
    Reply,
    Request,
    ScoreAnswers,
    Scored,
    Unfinished,
)
from swarm.types import Question

_encode = msgspec.msgpack.Encoder().encode
_decode_batch: Callable[[bytes], Batch] = msgspec.msgpack.Decoder(Batch).decode
_decode_made: Callable[[bytes], list[Made | Refused]] = msgspec.msgpack.Decoder(list[Made | Refused]).decode
_decode_raw: Callable[[bytes], list[float | None]] = msgspec.msgpack.Decoder(list[float | None]).decode


def main() -> None:
    """Serve until stdin ends."""
    requests, replies = _take_over_standard_streams()
    families = Families(sys.argv[1:])
    _prepare(families)
    bars = put_up()
    replies.write(frame(_encode(Ready(families.versions, bars.up))))
    while header := requests.read(HEADER_BYTES):
        batch = _decode_batch(requests.read(payload_length(header)))
        replies.write(frame(_encode(serve(batch, families, bars))))


def _take_over_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """Private copies of stdin and stdout; the public ones become /dev/null, since some tasks print."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    return requests, replies


def _prepare(families: Families) -> None:
    """Import and run everything once: after `sandbox.enter` a child can import nothing more."""
    warnings.simplefilter("ignore")  # showing one reads source files, which a child may not
    families.prepare()
    bounded.prepare()
    gc.collect()
    gc.freeze()  # children share these pages as long as nobody's collector writes to them


def serve(batch: Batch, families: Families, bars: Bars = NO_BARS) -> Sequence[Reply | Unfinished]:
    """Answer the requests of a batch, in order."""
    frames = run_bounded(functools.partial(_batch_job, families, bars, batch.requests), batch.limits)
    made = _decode_made(frames[0]) if frames else []  # written before any answer was looked at
    replies = _finished(batch.requests, made, frames[1:])
    if len(batch.requests) == 1 and not replies:
        score_each = functools.partial(_score_each_alone, families, bars, batch.limits)
        return [_see_through(batch.requests[0], made, score_each)]
    return [*replies, *[Unfinished()] * (len(batch.requests) - len(replies))]


def _finished(requests: Sequence[Request], made: Sequence[Made | Refused], raw: Sequence[bytes]) -> list[Reply]:
    """Replies to the requests that the child served, up to the first that it did not."""
    replies: list[Reply] = []
    unread = iter(raw)
    for request, questions in zip(requests, made, strict=False):
        reply = _reply(request, questions, unread)
        if reply is None:
            break
        replies.append(reply)
    return replies


def _reply(request: Request, made: Made | Refused, raw: Iterator[bytes]) -> Reply | None:
    if isinstance(made, Refused) or isinstance(request, MakeQuestions):
        return made
    rewards = _raw_rewards(next(raw, b""), len(request.distinct))
    return None if rewards is None else _scored(request, made, list(map(check_reward, rewards)))


def _see_through(
    request: Request, made: Sequence[Made | Refused], score_each: Callable[[Question, Sequence[str]], list[Outcome]]
) -> Reply:
    """The reply to a lone request whose child did not come to its end."""
    if isinstance(request, ScoreAnswers) and made and isinstance(made[0], Made):
        return _scored(request, made[0], score_each(made[0].questions[0], request.distinct))
    return Refused("generation_failed", "the question's generator failed or used up its limits")


KILLED = "killed"
FAILED = "failed"
Outcome = float | str
"""A reward, or KILLED or FAILED."""


def check_reward(raw: float | None) -> Outcome:
    """The reward if it is a finite number in [0, 1], FAILED for any other and for None (the scorer raised)."""
    return raw if raw is not None and math.isfinite(raw) and 0.0 <= raw <= 1.0 else FAILED


def _scored(request: ScoreAnswers, made: Made, distinct_outcomes: Sequence[Outcome]) -> Scored:
    """Equal answers were scored once; an answer that is None was not shown to a scorer."""
    outcomes = dict(zip(request.distinct, distinct_outcomes, strict=True))
    found = [outcomes[answer] if answer is not None else 0.0 for answer in request.answers]
    rewards = tuple(outcome if isinstance(outcome, float) else 0.0 for outcome in found)
    return Scored(made.questions[0], rewards, killed=found.count(KILLED), errors=found.count(FAILED))


def _score_each_alone(
    families: Families, bars: Bars, limits: Limits, question: Question, answers: Sequence[str]
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for answer in answers:
        frames = run_bounded(functools.partial(_answers_job, families, bars, question, [answer]), limits)
        raw = _raw_rewards(frames[0] if frames else b"", 1)
        outcomes.append(KILLED if raw is None else check_reward(raw[0]))
    return outcomes


def _raw_rewards(payload: bytes, count: int) -> list[float | None] | None:
    """What the child scored, None if it did not come to its end. It has read hostile text: nothing is assumed."""
    try:
        raw = _decode_raw(payload)
    except msgspec.MsgspecError:
        return None
    return raw if len(raw) == count else None


# ------------------------------------------------------------------------------------- in the child


def _batch_job(families: Families, bars: Bars, requests: Sequence[Request], emit: Emit) -> None:
    _confine(bars)
    made = [_make(families, request) for request in requests]
    emit(_encode(made))
    for request, questions in zip(requests, made, strict=True):
        if isinstance(request, ScoreAnswers) and isinstance(questions, Made):
            _emit_rewards(families, questions.questions[0], request.distinct, emit)


def _confine(bars: Bars) -> None:
    bars.close_calls()
    sandbox.enter()


def _make(families: Families, request: Request) -> Made | Refused:
    """The questions that a request asks for, or is about."""
    try:
        if isinstance(request, MakeQuestions):
            return Made(tuple(map(families.make, request.questions)))
        question = families.regenerate(request.origin)
        _compare(request.claimed_prompt, question)
    except ProtocolError as refusal:
        return Refused(refusal.reason, refusal.detail)
    return Made((question,))


def _answers_job(families: Families, bars: Bars, question: Question, answers: Sequence[str], emit: Emit) -> None:
    _confine(bars)
    _emit_rewards(families, question, answers, emit)


def _compare(claimed: str | None, question: Question) -> None:
    if claimed is not None and claimed != question.prompt:
        raise ProtocolError(
            "question_mismatch", f"expected the prompt of {question.origin}, {question.prompt!r}, got {claimed!r:.200}"
        )


def _emit_rewards(families: Families, question: Question, answers: Sequence[str], emit: Emit) -> None:
    emit(_encode([_raw_reward(families, question, answer) for answer in answers]))


def _raw_reward(families: Families, question: Question, answer: str) -> float | None:
    """The family's reward, None where its scorer raises."""
    try:
        return families.score(question, answer)
    except Exception:  # noqa: BLE001 - the boundary: a scorer may raise anything at odd text, and it is counted
        return None


if __name__ == "__main__":
    main()
