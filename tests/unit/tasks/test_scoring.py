"""The scorer as a node uses it: real servers, real reasoning-gym, hostile answers."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import pytest
from structlog.testing import capture_logs

from swarm.errors import ProtocolError, ScoringError
from swarm.node.sharing.verification import all_at_once
from swarm.tasks import scoring, scoring_process
from swarm.tasks.bounded import Limits
from swarm.tasks.family import QuestionRequest
from swarm.tasks.gym.profiles import PROFILES, SAPO_TASKS
from swarm.tasks.scoring import FULL_ANSWER, GroupScore, Scorer
from swarm.types import FIRST_FAMILY, Origin, Question
from tests.hostile.exploits import tautology
from tests.patience import PATIENCE
from tests.unit.tasks.gym import FAMILIES, GYM_VERSION, make_question, reference
from tests.unit.tasks.serving import Serving, serving, tagged

T = TypeVar("T")

HANG = tautology(15)
"""Eight seconds of one processor, far above the one second that a child has."""
ROOM = Limits(wall_s=60.0)
"""For machines that are busy with other things: an honest child that waits for a core is no hang."""


def run(body: Callable[[Scorer], Awaitable[T]], processes: int = 1, limits: Limits | None = None) -> T:
    """The body's result with a live scorer."""

    async def main() -> T:
        with anyio.fail_after(PATIENCE):
            async with Scorer(processes, limits=limits) as scorer:
                return await body(scorer)

    return anyio.run(main)


@pytest.fixture(scope="module")
def shared() -> Iterator[Serving]:
    """One scorer for all tests that need no special one: starting a server takes a second."""
    with serving({}, (FIRST_FAMILY,), ROOM) as found:
        yield found


def question(task: str = "basic_arithmetic", profile: str = "tiny", seed: int = 1) -> Question:
    return make_question(task, profile, seed)


def served_by(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Servers are processes that run this code from now on."""
    monkeypatch.setattr(scoring_process, "_COMMAND", (sys.executable, "-c", code))


def as_list(asked: Question) -> str:
    """The answer as a Python list, which binary_matrix evaluates and gives partial credit."""
    return str(asked.metadata.get("solution", []))


async def score(scorer: Scorer, asked: Question, completions: Sequence[str]) -> GroupScore:
    return await scorer.score(asked.origin, asked.prompt, completions)


def test_honest_answers_score_exactly_what_reasoning_gym_gives_on_every_task_and_profile(shared: Serving) -> None:
    wrong = ["0", "1", "1/2", "P", "(P ∨ Q)", "Monday", "monday", "Yes", "[[0, 1], [1, 0]]", "0 1\n1 0", "0.5", ""]
    asked = [question(task, profile) for profile in PROFILES for task in SAPO_TASKS]
    answers = [[reference(one), as_list(one), *wrong] for one in asked]
    scores = shared.scores(*((one, tagged(*texts)) for one, texts in zip(asked, answers, strict=True)))
    for one, texts, group in zip(asked, answers, scores, strict=True):
        assert group.rewards == tuple(FAMILIES.score(one, answer) for answer in texts), one.origin
        assert group.rewards[0] >= FULL_ANSWER, one.origin
        assert (group.killed, group.errors) == (0, 0), one.origin
        assert (group.question.prompt, group.question.answer) == (one.prompt, one.answer)


def test_a_hang_in_a_batch_costs_only_itself_while_the_node_goes_on(shared: Serving) -> None:
    """Four groups travel together; the second holds a hang, the third is no question of ours."""
    asked = [question(seed=0), question("propositional_logic", "paper"), question(seed=2), question(seed=3)]
    claimed = [asked[0].prompt, asked[1].prompt, "another prompt", asked[3].prompt]
    answers = [(reference(one), HANG, "?") for one in asked]
    order: list[str] = []

    async def one(scorer: Scorer, which: int) -> tuple[tuple[float, ...], int] | str:
        try:
            group = await scorer.score(asked[which].origin, claimed[which], tagged(*answers[which]))
        except ProtocolError as refusal:
            return refusal.reason
        return group.rewards, group.killed

    async def tick() -> None:
        await anyio.sleep(0.2)
        order.append("the node's own work")

    async def body(scorer: Scorer) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tick)
            outcomes = await all_at_once([partial(one, scorer, which) for which in range(4)])
            order.append("scored")
        assert outcomes == [((1.0, 0.0, 0.0), 0), ((1.0, 0.0, 0.05), 1), "question_mismatch", ((1.0, 0.0, 0.0), 0)]

    start = time.monotonic()
    shared.portal.call(body, shared.scorer)
    assert order == ["the node's own work", "scored"]
    assert time.monotonic() - start < ROOM.wall_s


def test_no_closed_answer_is_exactly_zero_even_where_the_task_rewards_nothing(shared: Serving) -> None:
    asked = question("fraction_simplification")
    assert FAMILIES.score(asked, "no idea") > 0.0
    completions = ["", "no idea", "<answer>1/2", "<answer>" + "1" * 5_000 + "</answer>", *tagged(reference(asked))]
    group = shared.score(asked, *completions)
    assert group.rewards == (0.0, 0.0, 0.0, 0.0, 1.0)
    assert group.answered == (False, False, False, True, True)


def test_what_names_no_question_of_ours_is_refused_by_reason(shared: Serving) -> None:
    good = Origin("bf", "tiny", 1, 0, GYM_VERSION)
    odd = [Origin("bf", "tiny", 2**70, 0, GYM_VERSION), Origin("\ud800", "tiny", 1, 0, GYM_VERSION)]
    old = Origin("bf", "tiny", 1, 0, "0.0.1")
    for origin, reason in ((good, "question_mismatch"), (old, "gym_version"), *((one, "bad_origin") for one in odd)):
        with pytest.raises(ProtocolError, match=f"^{reason}"):
            shared.score(Question("another prompt", origin), *tagged("1"))
    with pytest.raises(ProtocolError, match=r"^unknown_task"):
        shared.make(QuestionRequest("bf", "tiny", 1), QuestionRequest("codeio", "tiny", 1))
    unclaimed = shared.portal.call(shared.scorer.score, good, None, tagged("1"))
    assert [unclaimed.question] == shared.make(QuestionRequest("bf", "tiny", 1))


def test_a_lost_server_is_replaced_and_the_request_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "REPLY_SLACK_S", 0.0)
    asked = question()

    async def lose(scorer: Scorer, *signals: signal.Signals) -> tuple[float, ...]:
        """The first signal comes before the request, the second while the server holds it."""
        pid = scorer.pids[0]
        os.kill(pid, signals[0])
        async with anyio.create_task_group() as tasks:
            for number in signals[1:]:
                tasks.start_soon(kill_soon, pid, number)
            rewards = (await score(scorer, asked, tagged(reference(asked)))).rewards
        assert scorer.pids[0] != pid
        return rewards

    async def kill_soon(pid: int, number: int) -> None:
        await anyio.sleep(0.2)
        os.kill(pid, number)

    async def body(scorer: Scorer) -> list[tuple[float, ...]]:
        return [
            await lose(scorer, signal.SIGKILL),
            await lose(scorer, signal.SIGSTOP),
            await lose(scorer, signal.SIGSTOP, signal.SIGKILL),
        ]

    assert run(body, limits=Limits(wall_s=1.0)) == [(1.0,)] * 3


STOPPING = """
import os, signal
import swarm.tasks.scoring_server as server
from swarm.tasks import bounded
child, forked = bounded.BoundedChild, []
def stops_the_second(pid, fd):  # that of the first batch: one has shown before that children work
    forked.append(pid)
    if len(forked) == 2: os.kill(pid, signal.SIGSTOP)
    return child(pid, fd)
bounded.BoundedChild = stops_the_second
server.main()
"""


def test_a_child_that_is_stopped_is_replaced_and_no_question_is_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(scorer: Scorer) -> str:
        (question,) = await scorer.make([QuestionRequest("bf", "tiny", 1)])
        return question.prompt

    served_by(monkeypatch, STOPPING)
    assert run(body, limits=Limits(wall_s=1.0))


def test_after_the_scorer_no_server_is_left_and_the_bodys_error_comes_out_as_it_is() -> None:
    pids: list[int] = []

    async def body(scorer: Scorer) -> None:
        pids.extend(scorer.pids)
        raise KeyError("the node's own")

    with pytest.raises(KeyError, match="the node's own"):
        run(body, processes=2)
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):  # not even a zombie
            os.kill(pid, 0)


BROKEN_CHILDREN = """
import swarm.tasks.scoring_server as server
def refuse(kept, owner): raise OSError(22, 'Invalid argument')
from swarm.tasks import bounded
bounded._leave_the_server = refuse
server.main()
"""


@pytest.mark.parametrize(
    ("code", "said", "logged"),
    [
        ("raise SystemExit('no gym here')", "gave no reply", "no gym here"),
        (None, "cannot start", ""),
        (BROKEN_CHILDREN, "no scoring child works on this machine", "Invalid argument"),
    ],
    ids=["ends at once", "no program", "no child works"],
)
def test_a_server_that_is_of_no_use_is_a_scoring_error_at_the_start_and_its_last_words_are_logged(
    code: str | None, said: str, logged: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(_scorer: Scorer) -> None:
        raise AssertionError("never entered")

    if code is None:
        monkeypatch.setattr(scoring_process, "_COMMAND", ("/no/such/python",))
    else:
        served_by(monkeypatch, code)
    with capture_logs() as logs, pytest.raises(ScoringError, match=said):
        run(body)
    assert logged in "".join(entry["line"] for entry in logs if entry["event"] == "scorer.stderr")


BREAKING = BROKEN_CHILDREN.replace(
    "server.main()",
    """
works, looks = server._children_work, []
def breaks(bars):
    looks.append(bars)
    return works(bars) if len(looks) > 1 else True
server._children_work = breaks
server.main()
""",
)


def test_a_machine_on_which_children_work_no_more_ends_the_scorer_and_blames_no_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body(scorer: Scorer) -> None:
        with pytest.raises(ScoringError):
            await scorer.make([QuestionRequest.named("basic_arithmetic", "tiny", 1)])

    served_by(monkeypatch, BREAKING)
    run(body)


def test_a_server_takes_neither_secrets_nor_modules_from_where_the_node_stands(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nodes are often started inside the shared folder, where any peer may put a msgspec.py."""
    (tmp_path / "msgspec.py").write_text("raise SystemExit('hijacked')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HUGGINGFACE_ACCESS_TOKEN", "hf_secret")

    async def body(scorer: Scorer) -> bytes:
        return await anyio.Path(f"/proc/{scorer.pids[0]}/environ").read_bytes() if sys.platform == "linux" else b""

    assert b"hf_secret" not in run(body)
