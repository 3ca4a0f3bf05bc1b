"""The server over its real pipes, with scorers in place of reasoning-gym's, to show what becomes of their output."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from swarm.tasks.bounded import Limits, frame, split_frames
from swarm.tasks.scoring_messages import (
    GroupScore,
    MakeQuestion,
    QuestionRequest,
    RefusedRequest,
    Reply,
    Request,
    RequestBatch,
    ScoreAnswers,
    ServerReady,
    Setup,
    Unfinished,
)
from swarm.types import FIRST_FAMILY, Origin
from tests.patience import PATIENCE
from tests.unit.tasks.gym import GYM_VERSION

PROGRAM = """
import os, time
import swarm.tasks.scoring_server as server
from swarm.tasks.gym.questions import GymQuestions as gym
clock, made = time.process_time, gym.make
def noise(*families):
    print('.' * 10_000, flush=True)
    os.write(1, b'.' * 10_000)
def make(self, origin):
    if origin.seed == 77: __import__('wave')
    if origin.seed == 78: os._exit(1)
    return made(self, origin)
def score(self, question, answer):
    noise()
    match answer.split()[0]:
        case 'poison': os._exit(1)
        case 'evil': os.mkdir('PLANTED')
        case 'late': __import__('wave')
        case 'data': open('/etc/hosts')
        case 'seed': return question.origin.seed / 10
        case 'slow':
            start = clock()
            while clock() - start < 0.4: pass
            return 0.5
        case 'rewards': os.write(3, bytes([0, 0, 0, 1, 0x90])), os._exit(0)
        case 'question':
            server.sender(3)(server._encode([server.Made(question)]))
            os._exit(0)
    return float(answer)
server._prepare(server.Families())
server._prepare, gym.make, gym.score = noise, make, score
server.main()
"""
"""A server that prints wherever it can, and whose scorer does as the answer says."""


def score_request(*answers: str | None, seed: int = 1) -> ScoreAnswers:
    return ScoreAnswers(Origin("basic_arithmetic", "tiny", seed, 0, GYM_VERSION), None, answers)


MAKE = MakeQuestion(QuestionRequest("bf", "paper", 1))
REFUSED = ScoreAnswers(Origin("bf", "tiny", 1, 0, "0.0.1"), None, ("1",))
ODD = ("nan", "inf", "-inf", "-0.01", "1.0001", "1e999", "not even a number")
BATCHES: dict[str, list[Request]] = {
    "made": [MAKE],
    "scored and made": [score_request("1"), MAKE],
    "made again": [MAKE],
    "odd": [score_request(*ODD, "0", "0.5", "1", "nan", None)],
    "poison": [score_request("0.25", "poison", None, "1", "poison")],
    "closed doors": [score_request("late", "0.5"), score_request("data", "late", "0.5"), score_request("0.5")],
    "evil": [score_request("evil", "0.5")],
    "a door for a question": [score_request("1", seed=77)],
    "an end of a question": [score_request("1", seed=78)],
    "questions with an end": [MAKE, score_request("1", seed=78)],
    "slow": [score_request("slow 1", "slow 2", "slow 3")],
    "poison in a batch": [score_request("0.25"), REFUSED, score_request("poison"), REFUSED, score_request("1")],
    "seeds": [score_request("seed", seed=seed) for seed in range(5)],
    "forged rewards": [score_request("rewards 1", "rewards 2")],
    "forged question": [score_request("question", seed=1), score_request("question", seed=2)],
    "no answers": [score_request(None, None)],
}
Replies = dict[str, list[Reply | Unfinished]]


@pytest.fixture(scope="module")
def replies() -> Replies:
    """What one server says to all of them."""
    limits = {"slow": Limits(wall_s=PATIENCE)}
    batches = (RequestBatch(tuple(asked), limits.get(name, Limits(wall_s=3.0))) for name, asked in BATCHES.items())
    stdin = b"".join(frame(msgspec.msgpack.encode(message)) for message in (Setup((FIRST_FAMILY,)), *batches))
    command = [sys.executable, "-c", PROGRAM]
    stdout = subprocess.run(command, input=stdin, capture_output=True, check=True, timeout=PATIENCE).stdout
    ready, *said = split_frames(stdout)
    assert msgspec.msgpack.decode(ready, type=ServerReady).versions == {FIRST_FAMILY: GYM_VERSION}
    found = (msgspec.msgpack.decode(payload, type=list[Reply | Unfinished]) for payload in said)
    return dict(zip(BATCHES, found, strict=True))


def scored(reply: Reply | Unfinished) -> tuple[tuple[float, ...], int, int]:
    assert isinstance(reply, GroupScore)
    return reply.rewards, reply.killed, reply.errors


def test_prints_never_reach_the_protocol_and_the_end_of_stdin_ends_the_server(replies: Replies) -> None:
    first, second, third = (replies[name] for name in ("made", "scored and made", "made again"))
    assert [type(reply).__name__ for reply in (*first, *second)] == ["Made", "GroupScore", "Made"]
    assert first == second[1:] == third


@pytest.mark.parametrize(
    ("batch", "outcomes"),
    [
        ("odd", [((0.0,) * 7 + (0.0, 0.5, 1.0, 0.0, 0.0), 0, 8)]),  # no number from 0 to 1 is 0, and counted
        ("poison", [((0.25, 0.0, 0.0, 1.0, 0.0), 2, 0)]),  # is killed, and the rest of its group keeps its scores
        ("closed doors", [((0.0, 0.5), 0, 1), ((0.0, 0.0, 0.5), 0, 2), ((0.5,), 0, 0)]),  # cost that answer alone
        ("evil", [((0.0, 0.5), 1, 0)]),  # a door that no text makes a library try ends the process
        ("forged rewards", [((0.0, 0.0), 2, 0)]),  # by a scorer that got control and leaves: they are too few
        ("slow", [((0.5, 0.5, 0.5), 0, 0)]),  # keep their rewards
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_an_answer_does_counts_against_it_alone(
    replies: Replies, batch: str, outcomes: list[tuple[tuple[float, ...], int, int]]
) -> None:
    assert [scored(reply) for reply in replies[batch]] == outcomes


def test_no_answer_is_never_shown_to_a_scorer(replies: Replies) -> None:
    assert [scored(reply) for reply in replies["no answers"]] == [((0.0, 0.0), 0, 0)]


@pytest.mark.parametrize("batch", ["questions with an end", "forged question"])
def test_questions_that_one_child_does_not_come_to_the_end_of_are_to_be_asked_again(
    replies: Replies, batch: str
) -> None:
    """All of a batch are read before its first answer is: what a scorer writes can only be taken for rewards."""
    assert replies[batch] == [Unfinished(), Unfinished()]


def test_slow_answers_count_by_what_they_took(replies: Replies) -> None:
    """By processor time: three times 0.4 of the one second that a child has."""
    (reply,) = replies["slow"]
    assert isinstance(reply, GroupScore)
    assert 1.1 < reply.slow < 2


@pytest.mark.parametrize("batch", ["a door for a question", "an end of a question"])
def test_a_question_that_is_not_made_is_refused_and_not_another_one_made(replies: Replies, batch: str) -> None:
    (reply,) = replies[batch]
    assert isinstance(reply, RefusedRequest)
    assert reply.reason == "generation_failed"


def test_in_a_batch_what_came_before_a_poisonous_answer_counts_and_the_rest_is_to_be_asked_again(
    replies: Replies,
) -> None:
    first, second, *rest = replies["poison in a batch"]
    assert scored(first) == ((0.25,), 0, 0)
    assert isinstance(second, RefusedRequest)
    assert rest == [Unfinished(), Unfinished(), Unfinished()]


def test_each_group_of_a_batch_is_scored_against_its_own_question(replies: Replies) -> None:
    found = replies["seeds"]
    assert [scored(reply)[0] for reply in found] == [(seed / 10,) for seed in range(5)]
    assert [reply.question.origin.seed for reply in found if isinstance(reply, GroupScore)] == [*range(5)]
