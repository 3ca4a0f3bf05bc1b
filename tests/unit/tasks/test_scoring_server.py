"""The server over its real pipes, with scorers in place of reasoning-gym's, to show what becomes of their output."""

from __future__ import annotations

import subprocess
import sys

import msgspec

from swarm.tasks.bounded import Limits
from swarm.tasks.frames import frame, split_frames
from swarm.tasks.gym import gym_version
from swarm.tasks.scoring_messages import MakeQuestions, QuestionRequest, Ready, Refused, Reply, Request, ScoreAnswers
from swarm.tasks.scoring_messages import Scored as ScoredReply
from swarm.types import Origin

LIMITS = Limits(wall_s=3.0)
ORIGIN = Origin("basic_arithmetic", "tiny", 1, 0, gym_version())


def serve(*requests: Request, scorer: str = "server.gym.score", patch: str = "") -> list[Reply]:
    """Replies of a server whose scorer is the given expression, and which prints wherever it can."""
    program = f"""
import os
import swarm.tasks.scoring_server as server
def noise():
    print('.' * 10_000, flush=True)
    os.write(1, b'.' * 10_000)
def score(question, answer, raw={scorer}):
    noise()
    return raw(question, answer)
server._prepare()
server._prepare, server.gym.score = noise, score
{patch}
server.main()
"""
    stdin = b"".join(frame(msgspec.msgpack.encode(request)) for request in requests)
    command = [sys.executable, "-c", program]
    stdout = subprocess.run(command, input=stdin, capture_output=True, check=True, timeout=60).stdout
    ready, *replies = [msgspec.msgpack.decode(payload, type=Reply) for payload in split_frames(stdout)]
    assert ready == Ready(gym_version())
    return replies


def score_request(*answers: str | None, limits: Limits = LIMITS) -> ScoreAnswers:
    return ScoreAnswers(ORIGIN, None, answers, limits)


def scored(reply: Reply) -> tuple[tuple[float, ...], int, int]:
    assert isinstance(reply, ScoredReply)
    return reply.rewards, reply.killed, reply.errors


def test_prints_never_reach_the_protocol_and_the_end_of_stdin_ends_the_server() -> None:
    make = MakeQuestions((QuestionRequest("bf", "paper", 1),), LIMITS)
    replies = serve(make, score_request("1"), make)
    assert [type(reply).__name__ for reply in replies] == ["Made", "Scored", "Made"]
    assert replies[0] == replies[2]


def test_what_is_no_number_between_zero_and_one_is_zero_and_counted() -> None:
    odd = ("nan", "inf", "-inf", "-0.01", "1.0001", "1e999", "not even a number")
    reply = serve(score_request(*odd, "0", "0.5", "1", "nan", None), scorer="lambda question, answer: float(answer)")[0]
    assert scored(reply) == ((0.0,) * 7 + (0.0, 0.5, 1.0, 0.0, 0.0), 0, 8)


def test_a_poisonous_answer_is_killed_and_the_rest_of_its_group_keeps_its_scores() -> None:
    scorer = "lambda question, answer: os._exit(1) if answer == 'poison' else float(answer)"
    reply = serve(score_request("0.25", "poison", None, "1", "poison"), scorer=scorer)[0]
    assert scored(reply) == ((0.25, 0.0, 0.0, 1.0, 0.0), 2, 0)


def test_a_forged_result_counts_as_killed() -> None:
    """A scorer that got control writes a list of rewards itself, too short, and leaves."""
    scorer = "lambda question, answer: (os.write(3, b'\\0\\0\\0\\1\\x90'), os._exit(0))"
    assert scored(serve(score_request("a", "b"), scorer=scorer)[0]) == ((0.0, 0.0), 2, 0)


def test_no_answer_is_never_shown_to_a_scorer() -> None:
    assert scored(serve(score_request(None, None), scorer="lambda question, answer: 1.0")[0]) == ((0.0, 0.0), 0, 0)


def test_a_generator_that_does_not_finish_is_a_refusal() -> None:
    reply = serve(score_request("1"), patch="server.gym.regenerate = lambda origin: os._exit(1)")[0]
    assert isinstance(reply, Refused)
    assert reply.reason == "generation_failed"
