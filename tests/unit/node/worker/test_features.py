"""The core's own features in a round: answers to a judge, by which nothing else changes; and what a node says of
itself, once each: how long its rounds take, and what makes it useless."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from swarm.algo.adaptive_rule import Split
from swarm.config import Settings
from swarm.node.base.experiment import claim_experiment
from swarm.node.worker.features import LONGEST_PROMPT, Foreseeing, HintLog
from swarm.node.worker.steps import Own, OwnHalf, Sampled
from swarm.records.hints import FEW
from swarm.types import RoundKey
from swarm.wire.codec import decode, encode
from swarm.wire.judge_messages import JudgeAnswer, JudgeQuestion
from tests.layout import Layout
from tests.unit.algo.factories import make_scored
from tests.unit.node.factories import FakePolicy, put
from tests.unit.node.nodes import (
    comparable,
    make_context,
    make_worker,
    play_rounds,
    play_to_the_end,
    rollouts_of,
    rows_of,
    running,
    until,
)
from tests.unit.records.test_hints import row
from tests.unit.views.factories import append, set_clock

pytestmark = pytest.mark.anyio


# ── a judge's questions ─────────────────────────────────────────────────────────────────────────────────────────────
ROUNDS = range(3)


def make_question(round_: int, node: str = "alice", **more: Any) -> JudgeQuestion:
    base = {"profile": "tiny", "question_id": f"q{round_}", "prompt": f"{round_} + 1?", "asked_at": 1.0}
    return JudgeQuestion(**{"round": round_, "node": node} | base | more)


def ask(layout: Layout, round_: int, **more: Any) -> None:
    put(layout.judge_question_file(round_, "alice"), encode(make_question(round_, **more)))


def answer_of(layout: Layout, round_: int) -> JudgeAnswer:
    return decode(layout.judge_answer_file(round_, "alice").read_bytes(), JudgeAnswer, "answer")


async def play(layout: Layout, **settings: Any) -> FakePolicy:
    """Some rounds of one worker, with whatever questions lie there."""
    policy = FakePolicy()
    await play_to_the_end(layout, ROUNDS, make_worker(layout, "alice", policy, **settings))
    return policy


async def test_a_question_gets_one_completion_of_the_policy_after_that_rounds_update(layout: Layout) -> None:
    for round_ in ROUNDS:
        ask(layout, round_)
    policy = await play(layout)
    for round_ in ROUNDS:
        said = answer_of(layout, round_)
        assert (said.peer_id, said.round, said.question_id) == ("alice", round_, f"q{round_}")
        assert said.policy.rounds_trained == sum(row.updated for row in rows_of(layout, "alice")[: round_ + 1])
        assert said.policy.model == "fake"
    assert policy.generated == 2 * len(ROUNDS), "one call for the round, one for the judge"


@pytest.mark.parametrize("staleness", [0, 1])
async def test_a_run_is_the_same_with_and_without_a_judge(tmp_path: Path, staleness: int) -> None:
    alone, judged = Layout(tmp_path / "alone", "exp"), Layout(tmp_path / "judged", "exp")
    for round_ in ROUNDS:
        ask(judged, round_)
    policies = [await play(layout, staleness=staleness) for layout in (alone, judged)]
    assert policies[0].weights == policies[1].weights
    assert policies[0].trained == policies[1].trained
    for round_ in ROUNDS:
        ours, theirs = (rollouts_of(layout, round_, "alice") for layout in (alone, judged))
        assert msgspec.structs.replace(ours, timestamp=0.0) == msgspec.structs.replace(theirs, timestamp=0.0)
        assert judged.judge_answer_file(round_, "alice").is_file()
    assert comparable(alone) == comparable(judged)


REFUSED = [
    ("malformed", b"{"),
    ("malformed", b'{"round": 0}'),
    ("wrong_version", b'{"schema_version": 9}'),
    ("misplaced", encode(make_question(0, "bob"))),
    ("misplaced", encode(make_question(1))),
    ("oversized", encode(make_question(5, prompt=""))),
    ("oversized", encode(make_question(6, prompt="x" * (LONGEST_PROMPT + 1)))),
    ("oversized", encode(make_question(7, prompt="x" * 2**17))),
]
"""One for each round."""


async def test_a_question_that_is_none_is_refused_and_counted_and_the_run_goes_on(layout: Layout) -> None:
    for round_, (_, content) in enumerate(REFUSED):
        put(layout.judge_question_file(round_, "alice"), content)
    with capture_logs() as logs:
        await play_to_the_end(layout, range(len(REFUSED) + 1), make_worker(layout, "alice"))
    reasons = [reason for reason, _ in REFUSED]
    assert [entry["reason"] for entry in logs if entry["event"] == "question.refused"] == reasons
    assert [row.refused_files for row in rows_of(layout, "alice")] == [{}, *({reason: 1} for reason in reasons)]
    assert not layout.judge_answers.exists()


async def test_lesson_a_question_that_the_model_cannot_take_ended_the_node(layout: Layout) -> None:
    ask(layout, 0, prompt="x" * LONGEST_PROMPT)
    ask(layout, 1)
    policy = FakePolicy(unreadable="x" * LONGEST_PROMPT)
    with capture_logs() as logs:
        await play_to_the_end(layout, ROUNDS, make_worker(layout, "alice", policy))
    assert [entry["round"] for entry in logs if entry["event"] == "answer.failed"] == [0]
    assert not layout.judge_answer_file(0, "alice").exists()
    assert answer_of(layout, 1).question_id == "q1"
    assert len(rows_of(layout, "alice")) == len(ROUNDS)


async def test_an_answer_that_cannot_be_written_costs_the_node_nothing(layout: Layout) -> None:
    ask(layout, 0)
    put(layout.judge_answers, b"a file where the folder should be")
    with capture_logs() as logs:
        await play(layout)
    assert [entry["round"] for entry in logs if entry["event"] == "answer.failed"] == [0]
    assert len(rows_of(layout, "alice")) == len(ROUNDS)


async def test_a_question_whose_answer_a_kill_prevented_is_answered_when_the_round_is_redone(tmp_path: Path) -> None:
    whole, broken = Layout(tmp_path / "whole", "exp"), Layout(tmp_path / "broken", "exp")
    for layout in (whole, broken):
        for round_ in ROUNDS:
            ask(layout, round_)
    await play(whole)
    async with running(make_worker(broken, "alice", FakePolicy(), checkpoint_interval=100)):
        await play_rounds(broken, range(2))
        await until(broken.judge_answer_file(1, "alice").exists)
    kept = broken.judge_answer_file(0, "alice").read_bytes()
    broken.judge_answer_file(1, "alice").unlink()
    await play_to_the_end(broken, range(2, 3), make_worker(broken, "alice", FakePolicy(), checkpoint_interval=100))
    assert broken.judge_answer_file(0, "alice").read_bytes() == kept, "it was answered a second time"
    for round_ in ROUNDS:
        one, other = answer_of(whole, round_), answer_of(broken, round_)
        assert (one.response, one.policy) == (other.response, other.policy)


async def test_where_looks_are_paid_for_a_judge_is_looked_for_in_some_rounds_and_once_it_has_asked_in_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Settings, "sparing", property(lambda _: True))
    layout, asked = Layout(tmp_path, "exp"), (2, 4, 5, 6, 7)
    for round_ in asked:
        ask(layout, round_)
    await play_to_the_end(layout, range(8), make_worker(layout, "alice", FakePolicy()))
    assert [round_ for round_ in asked if layout.judge_answer_file(round_, "alice").exists()] == [4, 5, 6, 7]


# ── how long a round takes ──────────────────────────────────────────────────────────────────────────────────────────
def half(rewards: list[float], **fields: Any) -> OwnHalf:
    """Own groups of four answers that took 8 s to write, 1 s to score, and 6 s of the update so far."""
    groups = [make_scored("anna", slot, rewards=tuple(rewards)) for slot in range(2)]
    own = Own(Sampled(RoundKey(0), [scored.group for scored in groups], 0), groups)
    seconds = {"generate": 8.0, "score": 1.0, "train": 6.0}
    return OwnHalf(RoundKey(0), Split(2, 4, 4.0), own=own, seconds=seconds, **{"is_new": True} | fields)


async def foreseen(layout: Layout, *halves: OwnHalf, interval: float) -> list[Any]:
    set_clock(layout, 0, max_rounds=9, round_interval=interval)
    foreseeing = Foreseeing(make_context(layout, "anna"))
    with capture_logs() as logs:
        for one in halves:
            await foreseeing.after_own_half(one)
    return [log for log in logs if log["event"] == "round.forecast"]


async def test_what_a_round_takes_is_said_once_of_the_first_answers_that_were_written_now(layout: Layout) -> None:
    new = half([1.0, 0.0, 0.0, 0.0])
    (log,) = await foreseen(layout, half([1.0], is_new=False), new, new, interval=60.0)
    assert (log["log_level"], log["answering"], log["learning"]) == ("info", 9.0, 18.0), "6 s for 2 groups of 6"
    assert (log["answers"], log["earned"]) == (8, 2)
    assert log["forecast"].startswith("a round takes about 27 s on this machine")


async def test_a_round_that_is_longer_than_the_clocks_is_a_warning(layout: Layout) -> None:
    (log,) = await foreseen(layout, half([1.0, 0.0]), interval=20.0)
    assert log["log_level"] == "warning"
    assert "--round-interval 54" in log["forecast"]


async def test_an_update_of_equal_rewards_measures_nothing(layout: Layout) -> None:
    (log,) = await foreseen(layout, half([0.0, 0.0]), interval=60.0)
    assert (log["learning"], log["earned"]) == (None, 0)
    assert "none of 4 answers earned a reward" in log["rewards"]


# ── what makes it useless ───────────────────────────────────────────────────────────────────────────────────────────
async def said(hints: HintLog, rounds: int, **changes: object) -> list[str]:
    with capture_logs() as logs:
        for number in range(rounds):
            await hints.after_row(row(number, **changes), number)
    return [log["code"] for log in logs if log["event"] == "hint" and log["log_level"] == "warning"]


async def test_a_hint_is_said_once(layout: Layout) -> None:
    hints = HintLog(make_context(layout, "anna"))
    assert await said(hints, 5 * FEW, late=True) == ["short-rounds"]


async def test_who_hears_nothing_of_a_slow_peer_says_which(layout: Layout) -> None:
    set_clock(layout, 12, max_rounds=99, round_interval=60.0)
    ben = row(0, node_id="ben", seconds_generate=278.0, seconds_round=280.0)
    append(layout.metrics_file("ben"), msgspec.json.encode(ben))
    hints = HintLog(make_context(layout, "anna"))
    with capture_logs() as logs:
        for number in range(2 * FEW):
            await hints.after_row(row(number, pool_groups=0, external_groups=0), number)
    (said_once,) = [log for log in logs if log["event"] == "hint"]
    assert "ben needs 278 s, a round lasts 60 s" in said_once["evidence"]


async def test_who_trains_alone_in_an_experiment_that_shares_hears_of_it(layout: Layout) -> None:
    claim_experiment(make_context(layout, "clock", role="coordinator", external_groups=6, local_groups=2))
    alone = HintLog(make_context(layout, "anna", external_groups=0))
    assert await said(alone, 2 * FEW, external_wanted=0, external_groups=0, pool_groups=0) == ["trains-alone"]
