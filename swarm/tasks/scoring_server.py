"""The process that asks reasoning-gym: imports it once, then serves each request in a bounded, sandboxed fork.

    stdin ──request──▶ serve ── fork ──▶ regenerate, compare, score ──▶ validate ──reply──▶ stdout

    waits for   a request on stdin; end of file there (the node is gone) ends the server
    unblocks    one reply per request

Run as `python -m swarm.tasks.scoring_server`. A group whose child does not come to its end is scored again answer by
answer, each in a child with limits of its own, so that a poisonous answer costs its author alone.
"""

from __future__ import annotations

import functools
import gc
import math
import os
import warnings
from collections.abc import Callable, Sequence
from typing import BinaryIO

import msgspec

from swarm.errors import ProtocolError
from swarm.tasks import gym, sandbox
from swarm.tasks.bounded import Emit, Limits, run_bounded
from swarm.tasks.frames import HEADER_BYTES, frame, payload_length
from swarm.tasks.profiles import PROFILES
from swarm.tasks.scoring_messages import Made, MakeQuestions, Ready, Refused, Reply, Request, ScoreAnswers, Scored
from swarm.types import Question

_encode = msgspec.msgpack.Encoder().encode
_decode_request: Callable[[bytes], Request] = msgspec.msgpack.Decoder(Request).decode
_decode_made: Callable[[bytes], Made | Refused] = msgspec.msgpack.Decoder(Made | Refused).decode
_decode_raw: Callable[[bytes], list[float | None]] = msgspec.msgpack.Decoder(list[float | None]).decode


def main() -> None:
    """Serve until stdin ends."""
    requests, replies = _take_over_standard_streams()
    _prepare()
    replies.write(frame(_encode(Ready(gym.gym_version()))))
    while header := requests.read(HEADER_BYTES):
        request = _decode_request(requests.read(payload_length(header)))
        replies.write(frame(_encode(serve(request))))


def _take_over_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """Private copies of stdin and stdout; the public ones become /dev/null, since some tasks print."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    return requests, replies


def _prepare() -> None:
    """Import, disarm and run everything once: after `sandbox.enter` a child can import nothing more."""
    warnings.simplefilter("ignore")  # showing one reads source files, which a child may not
    sandbox.disarm()
    for profile, tasks in PROFILES.items():
        for task in tasks:
            question = gym.make_question(task, profile, seed=0)
            gym.score(question, question.answer or "")
    gc.collect()
    gc.freeze()  # children share these pages as long as nobody's collector writes to them


def serve(request: Request) -> Reply:
    """Answer one request."""
    return make(request) if isinstance(request, MakeQuestions) else score(request)


def make(request: MakeQuestions) -> Made | Refused:
    """Generate questions in a child."""
    return _questions_of(run_bounded(functools.partial(_make_job, request), request.limits))


def score(request: ScoreAnswers) -> Scored | Refused:
    """Regenerate, compare and score in a child; equal answers are scored once."""
    distinct = tuple(dict.fromkeys(answer for answer in request.answers if answer is not None))
    frames = run_bounded(functools.partial(_score_job, request, distinct), request.limits)
    made = _questions_of(frames)
    if isinstance(made, Refused):
        return made
    question = made.questions[0]
    raw = _raw_rewards(frames[1:], len(distinct))
    outcomes = _score_each_alone(question, distinct, request.limits) if raw is None else list(map(check_reward, raw))
    return _assemble(question, request.answers, dict(zip(distinct, outcomes, strict=True)))


KILLED = "killed"
FAILED = "failed"
Outcome = float | str
"""A reward, or KILLED or FAILED."""


def check_reward(raw: float | None) -> Outcome:
    """The reward if it is a finite number in [0, 1], FAILED for any other and for None (the scorer raised)."""
    return raw if raw is not None and math.isfinite(raw) and 0.0 <= raw <= 1.0 else FAILED


def _assemble(question: Question, answers: Sequence[str | None], outcomes: dict[str, Outcome]) -> Scored:
    found = [outcomes[answer] if answer is not None else 0.0 for answer in answers]
    rewards = tuple(outcome if isinstance(outcome, float) else 0.0 for outcome in found)
    return Scored(question, rewards, killed=found.count(KILLED), errors=found.count(FAILED))


def _score_each_alone(question: Question, answers: Sequence[str], limits: Limits) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for answer in answers:
        raw = _raw_rewards(run_bounded(functools.partial(_answers_job, question, [answer]), limits), 1)
        outcomes.append(KILLED if raw is None else check_reward(raw[0]))
    return outcomes


def _questions_of(frames: Sequence[bytes]) -> Made | Refused:
    if frames:
        return _decode_made(frames[0])  # written before any answer was looked at
    return Refused("generation_failed", "the question's generator failed or used up its limits")


def _raw_rewards(frames: Sequence[bytes], count: int) -> list[float | None] | None:
    """What the child scored, None if it did not come to its end. It has read hostile text: nothing is assumed."""
    try:
        raw = _decode_raw(frames[0])
    except (IndexError, msgspec.MsgspecError):
        return None
    return raw if len(raw) == count else None


# ------------------------------------------------------------------------------------- in the child


def _make_job(request: MakeQuestions, emit: Emit) -> None:
    sandbox.enter()
    try:
        emit(_encode(Made(tuple(gym.make_question(q.task, q.profile, q.seed, q.index) for q in request.questions))))
    except ProtocolError as refusal:
        emit(_encode(Refused(refusal.reason, refusal.detail)))


def _score_job(request: ScoreAnswers, answers: Sequence[str], emit: Emit) -> None:
    sandbox.enter()
    try:
        question = gym.regenerate(request.origin)
        _compare(request.claimed_prompt, question)
    except ProtocolError as refusal:
        emit(_encode(Refused(refusal.reason, refusal.detail)))
    else:
        emit(_encode(Made((question,))))
        _emit_rewards(question, answers, emit)


def _answers_job(question: Question, answers: Sequence[str], emit: Emit) -> None:
    sandbox.enter()
    _emit_rewards(question, answers, emit)


def _compare(claimed: str | None, question: Question) -> None:
    if claimed is not None and claimed != question.prompt:
        raise ProtocolError(
            "question_mismatch", f"expected the prompt of {question.origin}, {question.prompt!r}, got {claimed!r:.200}"
        )


def _emit_rewards(question: Question, answers: Sequence[str], emit: Emit) -> None:
    emit(_encode([_raw_reward(question, answer) for answer in answers]))


def _raw_reward(question: Question, answer: str) -> float | None:
    """reasoning-gym's score, None where its scorer raises."""
    try:
        return gym.score(question, answer)
    except Exception:  # noqa: BLE001 - the boundary: a scorer may raise anything at odd text, and it is counted
        return None


if __name__ == "__main__":
    main()
