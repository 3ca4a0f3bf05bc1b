"""The turns of a conversation in a peer's file: bounded, checked, and as they were said."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import msgspec
import pytest

from swarm.errors import ProtocolError
from swarm.types import LONGEST_REPLY, MOST_TURNS, Completion, Question, RolloutGroup, RoundKey, ScoredGroup, Turn
from swarm.wire.codec import MOST_TOKENS, decode, encode, to_groups, to_rollout_file
from swarm.wire.messages import PolicyInfo, RolloutFile, SampledCompletion, SampledTurn
from tests.unit.wire.forms import GOLDEN

KEY = RoundKey(17)
SAID = Completion(
    "<answer>6</answer>",
    True,
    (33, 0),
    (-0.75, 0.0),
    (Turn("3", True, "It is higher.", (30, 0), (-0.5, 0.0)), Turn("9", False, "It is lower.", (31,), (-1.0,))),
)


def document() -> dict[str, Any]:
    return dict(json.loads((GOLDEN / "rollouts_with_turns.json").read_bytes()))


def completions(document: dict[str, Any]) -> tuple[Completion, ...]:
    file = decode(json.dumps(document).encode(), RolloutFile, "a file")
    return to_groups(file, "anna", KEY)[0].completions


def published(*said: Completion, with_logprobs: bool) -> tuple[Completion, ...]:
    """As a reader has them."""
    origin = to_groups(decode(encode_golden(), RolloutFile, "golden"), "anna", KEY)[0].question.origin
    group = RolloutGroup("anna", *KEY, 0, Question("Which?", origin), said)
    scored = ScoredGroup(group, (0.0,) * len(said), (True,) * len(said))
    file = to_rollout_file([scored], "anna", KEY, 1.5, PolicyInfo(), with_logprobs=with_logprobs)
    return to_groups(decode(encode(file), RolloutFile, "a file"), "anna", KEY)[0].completions


def encode_golden() -> bytes:
    return (GOLDEN / "rollouts_with_turns.json").read_bytes()


def test_a_conversation_arrives_as_it_was_said() -> None:
    once = Completion("six", False, (5,), (-1.0,))
    assert published(SAID, once, with_logprobs=True) == (SAID, once)
    first, second = published(SAID, once, with_logprobs=False)
    assert first.texts == ("3", "9", "<answer>6</answer>")
    assert [turn.reply for turn in first.earlier] == ["It is higher.", "It is lower."]
    assert [turn.finished for turn in first.every_turn] == [True, False, True]
    assert {turn.token_ids for turn in first.every_turn} == {None}
    assert second.earlier == ()


TURN = {"response": "3", "reply": "higher"}


NO_TURNS: list[object] = [
    *([], None, {}, "3", [{"response": "3"}], [{"reply": "higher"}], [TURN] * MOST_TURNS, [[TURN]]),
    *([TURN | odd] for odd in ({"reply": ""}, {"reply": "a" * (LONGEST_REPLY + 1)}, {"reply": None})),
    *([TURN | odd] for odd in ({"response": 3}, {"finished": "yes"})),
]


@pytest.mark.parametrize("turns", NO_TURNS, ids=lambda turns: json.dumps(turns)[:40])
def test_what_is_no_list_of_turns_refuses_the_file(turns: object) -> None:
    said = document()
    said["rollouts"]["0"][1]["turns"] = turns
    with pytest.raises(ProtocolError, match="malformed"):
        completions(said)


def test_as_many_turns_as_a_conversation_may_have_are_taken() -> None:
    said = document()
    said["rollouts"]["0"][1]["turns"] = [{**TURN, "reply": "é" * LONGEST_REPLY}] * (MOST_TURNS - 1)
    assert len(completions(said)[1].texts) == MOST_TURNS


@pytest.mark.parametrize(
    "hint", [{}, {"token_ids": [1, 2], "logprobs": [-1]}, {"token_ids": [-1], "logprobs": [-1]}, {"token_ids": "1"}]
)
def test_token_ids_are_there_of_all_turns_or_of_none(hint: dict[str, Any]) -> None:
    said = document()
    assert [len(turn.token_ids or ()) for turn in completions(said)[0].every_turn] == [2, 2]
    said["rollouts"]["0"][0]["turns"] = [{**TURN, **hint}]
    assert [turn.token_ids for turn in completions(said)[0].every_turn] == [None, None]


def test_the_tokens_of_all_turns_together_are_bounded_as_those_of_one_completion() -> None:
    def said(tokens: int) -> list[int]:
        file, hint = document(), {"token_ids": [1] * (tokens // 4), "logprobs": [-1.0] * (tokens // 4)}
        file["rollouts"]["0"][0] |= {"turns": [{**TURN, **hint}] * 3, **hint}
        return [len(turn.token_ids or ()) for turn in completions(file)[0].every_turn]

    assert said(MOST_TOKENS) == [MOST_TOKENS // 4] * 4
    assert said(MOST_TOKENS + 4) == [0] * 4


@pytest.mark.parametrize(("token", "taken"), [(-1, False), (0, True), (2**31 - 1, True), (2**31, False)])
@pytest.mark.parametrize("form", [SampledCompletion, SampledTurn])
def test_a_token_id_has_at_most_31_bits(form: type, token: int, taken: bool) -> None:
    sampled = {"text": "", "finished": True, "token_ids": [token], "logprobs": [0.0], "reply": "higher"}
    with nullcontext() if taken else pytest.raises(msgspec.ValidationError):
        msgspec.convert(sampled, form)
