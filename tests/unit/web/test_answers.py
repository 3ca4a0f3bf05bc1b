"""The groups of a stage for people, and who trained on them."""

from __future__ import annotations

import msgspec
import pytest

from swarm.records.history import NodeHistory
from swarm.types import Origin
from swarm.web import answers
from swarm.web.answers import adoptions, file_document
from swarm.web.harmless import encoded
from swarm.wire.messages import GroupInfo, RolloutEntry, RolloutFile
from swarm.wire.turns import TurnEntry
from tests.unit.records.test_history import history_of as a_node
from tests.unit.records.test_history import line as a_row


def a_file(*entries: RolloutEntry, slot: str = "0", info: GroupInfo | None = None) -> RolloutFile:
    return RolloutFile(
        peer_id="anna",
        round=3,
        stage=0,
        timestamp=1.0,
        rollouts={slot: [*entries]},
        groups={slot: info or GroupInfo(task="knots", answer="4")},
    )


def an_entry(text: str = "<answer>4</answer>", reward: float | None = 1.0, **fields: object) -> RolloutEntry:
    return RolloutEntry(prompt="2 + 2?", response=text, reward=reward, **fields)  # type: ignore[arg-type]


def test_a_group_has_question_answer_and_completions_with_rewards_and_advantages() -> None:
    file = a_file(an_entry(), an_entry("5", 0.0, finished=False))
    (group,) = file_document(file, {})["groups"]
    assert (group["task"], group["question"], group["answer"], group["mean"]) == ("knots", "2 + 2?", "4", 0.5)
    assert [one["advantage"] for one in group["completions"]] == pytest.approx([1.0, -1.0])
    assert [one["finished"] for one in group["completions"]] == [True, False]


def test_stages_and_turns_are_told() -> None:
    origin = Origin("knots", "tiny-2", 1, 1, version="1", context=("ben/3/0/1/abc",))
    turn = TurnEntry(response="let me see", reply="go on")
    file = a_file(an_entry(turns=[turn]), an_entry(), info=GroupInfo(task="knots", origin=origin))
    (group,) = file_document(file, {})["groups"]
    assert group["shows"] == ["ben/3/0/1/abc"]
    assert group["completions"][0]["turns"] == [{"text": "let me see", "reply": "go on"}]


def test_what_a_stranger_wrote_is_bounded_and_printable() -> None:
    long = a_file(*[an_entry("\u202ex" * 9000)] * 100, slot="9")
    (group,) = file_document(long, {})["groups"]
    assert len(group["completions"]) == answers.MOST_COMPLETIONS
    assert group["left_out"] == 100 - answers.MOST_COMPLETIONS
    assert len(group["completions"][0]["text"]) <= answers.LONGEST + 3
    assert "\u202e" not in encoded(group)
    many = msgspec.structs.replace(long, rollouts={str(slot): [an_entry()] for slot in range(90)})
    told = file_document(many, {})
    assert [group["slot"] for group in told["groups"][:3]] == ["0", "1", "2"]
    assert told["left_out"] == 90 - answers.MOST_GROUPS
    told = file_document(a_file(an_entry(), slot="9" * 50), {})
    assert (told["groups"], told["left_out"]) == ([], 1), "no slot has such a name"


def test_who_trained_on_a_group_is_told_with_what_it_earned_before_and_after() -> None:
    rewards = [0.0, 0.0, 0.2, 0.4, 0.8]
    lines = [a_row(round_, task_rewards={"knots": reward}) for round_, reward in enumerate(rewards)]
    lines[2] = a_row(2, task_rewards={"knots": 0.3}, trained_on=["anna/1/0/0", "anna/1/0/10"])
    history = {"ben": a_node(*lines), "cleo": NodeHistory()}
    (adoption,) = adoptions(history, "anna/1/0/0", "knots")
    assert (adoption.node, adoption.round) == ("ben", 2)
    assert (adoption.before, adoption.after) == pytest.approx((0.1, 0.6))
    assert adoption.followed == 2, "rounds done since"
    assert adoptions(history, "anna/1/0/1", "knots") == []


def test_of_the_rounds_that_an_adopter_did_since_no_more_count_than_are_looked_at() -> None:
    lines = [a_row(round_, trained_on=["anna/1/0/0"] if round_ == 2 else []) for round_ in range(40)]
    (adoption,) = adoptions({"ben": a_node(*lines)}, "anna/1/0/0", "knots")
    assert adoption.followed == answers.WINDOW
