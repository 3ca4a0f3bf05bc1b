"""The server over its real pipes, with scorers in place of reasoning-gym's, to show what becomes of their output."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import msgspec

from swarm.tasks.bounded import Limits
from swarm.tasks.frames import frame, split_frames
from swarm.tasks.scoring_messages import (
    MakeQuestions,
    QuestionRequest,
    RefusedRequest,
    Reply,
    Request,
    RequestBatch,
    ScoreAnswers,
    ScoredReply,
    ServerReady,
    Setup,
    Unfinished,
)
from swarm.types import FIRST_FAMILY, Origin
from tests.patience import PATIENCE
from tests.unit.tasks.gym import GYM_VERSION

LIMITS = Limits(wall_s=3.0)


def serve(
    *batches: Sequence[Request], scorer: str = "None", patch: str = "", limits: Limits = LIMITS
) -> list[list[Reply | Unfinished]]:
    """Replies, batch by batch, of a server whose scorer is the given expression, and which prints wherever it can."""
    program = f"""
import os
import swarm.tasks.scoring_server as server
from swarm.tasks.gym.questions import GymQuestions as gym
def noise(*families):
    print('.' * 10_000, flush=True)
    os.write(1, b'.' * 10_000)
own, scorer = gym.score, {scorer}
def score(self, question, answer):
    noise()
    return scorer(question, answer) if scorer else own(self, question, answer)
server._prepare(server.Families())
server._prepare, gym.score = noise, score
{patch}
server.main()
"""
    messages = [Setup((FIRST_FAMILY,)), *(RequestBatch(tuple(requests), limits) for requests in batches)]
    stdin = b"".join(frame(msgspec.msgpack.encode(message)) for message in messages)
    command = [sys.executable, "-c", program]
    stdout = subprocess.run(command, input=stdin, capture_output=True, check=True, timeout=PATIENCE).stdout
    ready, *replies = split_frames(stdout)
    assert msgspec.msgpack.decode(ready, type=ServerReady).versions == {FIRST_FAMILY: GYM_VERSION}
    return [msgspec.msgpack.decode(payload, type=list[Reply | Unfinished]) for payload in replies]


def score_request(*answers: str | None, seed: int = 1) -> ScoreAnswers:
    return ScoreAnswers(Origin("basic_arithmetic", "tiny", seed, 0, GYM_VERSION), None, answers)


def scored(reply: Reply | Unfinished) -> tuple[tuple[float, ...], int, int]:
    assert isinstance(reply, ScoredReply)
    return reply.rewards, reply.killed, reply.errors


def alone(
    *answers: str | None, scorer: str, patch: str = "", limits: Limits = LIMITS
) -> tuple[tuple[float, ...], int, int]:
    """Rewards, killed and errors of a group that is a batch by itself."""
    ((reply,),) = serve([score_request(*answers)], scorer=scorer, patch=patch, limits=limits)
    return scored(reply)


POISONED = "lambda question, answer: os._exit(1) if answer == 'poison' else float(answer)"


def test_prints_never_reach_the_protocol_and_the_end_of_stdin_ends_the_server() -> None:
    make = MakeQuestions((QuestionRequest("bf", "paper", 1),))
    first, second, third = serve([make], [score_request("1"), make], [make])
    assert [type(reply).__name__ for reply in (*first, *second)] == ["Made", "ScoredReply", "Made"]
    assert first == second[1:] == third


def test_what_is_no_number_between_zero_and_one_is_zero_and_counted() -> None:
    odd = ("nan", "inf", "-inf", "-0.01", "1.0001", "1e999", "not even a number")
    outcome = alone(*odd, "0", "0.5", "1", "nan", None, scorer="lambda question, answer: float(answer)")
    assert outcome == ((0.0,) * 7 + (0.0, 0.5, 1.0, 0.0, 0.0), 0, 8)


def test_a_poisonous_answer_is_killed_and_the_rest_of_its_group_keeps_its_scores() -> None:
    assert alone("0.25", "poison", None, "1", "poison", scorer=POISONED) == ((0.25, 0.0, 0.0, 1.0, 0.0), 2, 0)


def test_a_closed_door_that_a_library_meets_at_some_text_costs_that_answer_alone_and_ends_no_batch() -> None:
    tries = "{'late': lambda: __import__('wave'), 'data': lambda: open('/etc/hosts')}"
    scorer = f"lambda q, a: {tries}.get(a, lambda: 1)() and 0.5"
    (replies,) = serve(
        [score_request("late", "x"), score_request("data", "late", "y"), score_request("z")], scorer=scorer
    )
    assert [scored(reply) for reply in replies] == [((0.0, 0.5), 0, 1), ((0.0, 0.0, 0.5), 0, 2), ((0.5,), 0, 0)]


def test_a_door_that_no_text_makes_a_library_try_ends_the_process_and_counts_against_its_answer() -> None:
    scorer = "lambda q, a: os.mkdir('PLANTED') if a == 'evil' else 0.5"
    assert alone("evil", "x", scorer=scorer) == ((0.0, 0.5), 1, 0)


def test_a_question_that_meets_a_closed_door_is_refused_and_not_another_one_made() -> None:
    patch = "made = gym.make; gym.make = lambda self, origin: __import__('wave') and made(self, origin)"
    ((reply,),) = serve([score_request("1")], patch=patch)
    assert (type(reply).__name__, getattr(reply, "reason", "")) == ("RefusedRequest", "generation_failed")


def test_slow_answers_keep_their_rewards_and_count_by_what_they_took() -> None:
    """By processor time: three times 0.45 of the one second that a child has."""
    scorer = (
        "lambda q, a: [clock() for start in [clock()] for _ in iter(lambda: clock() - start < 0.45, False)] and 0.5"
    )
    patch, limits = "import time; clock = time.process_time", Limits(wall_s=PATIENCE)
    ((reply,),) = serve([score_request("a", "b", "c")], scorer=scorer, patch=patch, limits=limits)
    assert scored(reply) == ((0.5, 0.5, 0.5), 0, 0)
    assert isinstance(reply, ScoredReply)
    assert 1.3 < reply.slow < 2


def test_in_a_batch_what_came_before_a_poisonous_answer_counts_and_the_rest_is_to_be_asked_again() -> None:
    refused = ScoreAnswers(Origin("bf", "tiny", 1, 0, "0.0.1"), None, ("1",))
    groups = [score_request("0.25"), refused, score_request("poison"), refused, score_request("1")]
    ((first, second, *rest),) = serve(groups, scorer=POISONED)
    assert scored(first) == ((0.25,), 0, 0)
    assert isinstance(second, RefusedRequest)
    assert rest == [Unfinished(), Unfinished(), Unfinished()]


def test_each_group_of_a_batch_is_scored_against_its_own_question() -> None:
    seeds = range(5)
    (replies,) = serve([score_request("7", seed=seed) for seed in seeds], scorer="lambda q, a: q.origin.seed / 10")
    assert [scored(reply)[0] for reply in replies] == [(seed / 10,) for seed in seeds]
    assert [reply.question.origin.seed for reply in replies if isinstance(reply, ScoredReply)] == [*seeds]


def test_a_forged_result_counts_as_killed() -> None:
    """A scorer that got control writes a list of rewards itself, too short, and leaves."""
    scorer = "lambda question, answer: (os.write(3, b'\\0\\0\\0\\1\\x90'), os._exit(0))"
    assert alone("a", "b", scorer=scorer) == ((0.0, 0.0), 2, 0)


def test_an_answer_cannot_forge_the_question_of_a_group_that_follows() -> None:
    """All questions are read before the first answer is; what a scorer writes can only be taken for rewards."""
    scorer = "lambda q, a: (os.write(3, server.frame(server._encode([server.Made((q, q))]))), os._exit(0))"
    (replies,) = serve([score_request("a", seed=1), score_request("b", seed=2)], scorer=scorer)
    assert replies == [Unfinished(), Unfinished()]


def test_no_answer_is_never_shown_to_a_scorer() -> None:
    assert alone(None, None, scorer="lambda question, answer: 1.0") == ((0.0, 0.0), 0, 0)


def test_a_generator_that_does_not_finish_is_a_refusal() -> None:
    ((reply,),) = serve([score_request("1")], patch="gym.make = lambda self, origin: os._exit(1)")
    assert isinstance(reply, RefusedRequest)
    assert reply.reason == "generation_failed"


def test_a_server_imports_no_more_of_reasoning_gym_than_it_needs() -> None:
    """Each megabyte is paid again at every fork."""
    code = """
import sys
import swarm.tasks.scoring_server as server
server._prepare(server.Families())
print({'numpy', 'sympy', 'matplotlib', 'torch', 'transformers'} & set(sys.modules))
"""
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE
    ).stdout
    assert out.strip() == "set()"
