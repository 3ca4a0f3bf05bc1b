"""Which replies of a generation server are believed: a pure function of bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.remote.outcomes import Failure
from swarm.remote.server_forms import Card, ExpectedReply, read_completions, read_models

EOS = 0
EXPECTED = ExpectedReply(
    name="a", prompt_ids=(5, 6), group_size=2, limit=3, vocabulary=10, eos_ids=frozenset({EOS}), stops=False
)


def choice(index: int, ids: list[int], **more: Any) -> dict[str, Any]:
    return {
        "index": index,
        "text": "",
        "token_ids": ids,
        "prompt_token_ids": [5, 6],
        "logprobs": {"token_logprobs": [-0.5] * len(ids), "tokens": [], "text_offset": [], "top_logprobs": []},
        "finish_reason": "stop" if ids[-1:] == [EOS] else "length",
        **more,
    }


def reply() -> dict[str, Any]:
    return {"id": "x", "model": "a", "choices": [choice(0, [1, EOS]), choice(1, [1, 2, 3])], "usage": {}}


def read(value: Any, expected: ExpectedReply = EXPECTED) -> Any:
    """Ids and log-probs of each completion, or the failure."""
    outcome = read_completions(json.dumps(value).encode(), expected)
    if isinstance(outcome, Failure):
        return outcome
    return [(one.token_ids, one.logprobs) for one in outcome.completions]


def test_ids_and_logprobs_come_in_the_order_of_their_seeds() -> None:
    value = reply()
    value["choices"].reverse()
    assert read(value) == [((1, EOS), (-0.5, -0.5)), ((1, 2, 3), (-0.5, -0.5, -0.5))]
    value["choices"][1]["logprobs"]["token_logprobs"] = [1e-6, -1.0]
    assert read(value)[0][1] == (0.0, -1.0), "rounding put it above zero"


def in_first(**changes: Any) -> Callable[[dict[str, Any]], object]:
    return lambda value: value["choices"][0].update(changes)


def logprobs(*values: object) -> dict[str, Any]:
    return {"token_logprobs": list(values)}


UNUSABLE: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "another adapter": (lambda value: value.update(model="base"), "expected completions of a, got those of 'base'"),
    "no adapter said": (lambda value: value.pop("model"), "missing required field `model`"),
    "one too few": (lambda value: value["choices"].pop(), "expected 2 completions, got 1"),
    "one twice": (in_first(index=1), "expected 2 completions"),
    "a prompt cut off": (in_first(prompt_token_ids=[6]), "prompt of 2 tokens, got those to another of 1"),
    "another prompt": (in_first(prompt_token_ids=[5, 7]), "to another"),
    "no ids": (in_first(token_ids=None), "token_ids"),
    "nothing written": (in_first(token_ids=[], logprobs=logprobs()), "got 0 and 0 log-probs"),
    "too long": (in_first(token_ids=[1, 2, 3, 4], logprobs=logprobs(*[-1] * 4)), "expected 1 to 3 tokens"),
    "fewer log-probs than ids": (in_first(logprobs=logprobs(-1)), "got 2 and 1 log-probs"),
    "no log-probs": (in_first(logprobs=None), "logprobs"),
    "an id beyond the vocabulary": (in_first(token_ids=[10, EOS]), "token ids below 10, got 10"),
    "a negative id": (in_first(token_ids=[-1, EOS]), "got -1"),
    "an id that is none": (in_first(token_ids=[1.5, EOS]), "token_ids"),
    "a log-prob above zero": (in_first(logprobs=logprobs(0.5, -1)), "log-probs of sampled tokens, got 0.5"),
    "a log-prob of nothing": (in_first(logprobs=logprobs(-9999.0, -1)), "got -9999"),
    "a log-prob that is missing": (in_first(logprobs=logprobs(None, -1)), "token_logprobs"),
    "cut before its end": (in_first(token_ids=[1, 2]), "up to its end of text or 3 tokens, got 2"),
    "going on behind its end": (in_first(token_ids=[EOS, 1]), "nothing behind an end of text"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_reply_that_cannot_be_of_the_policy_that_was_asked_is_none(name: str) -> None:
    change, words = UNUSABLE[name]
    value = reply()
    change(value)
    failure = read(value)
    assert isinstance(failure, Failure), failure
    assert (failure.kind, words in failure.detail) == ("unreadable", True), failure.detail


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'{"model": "a"}', b'{"model": "a", "choices": [1]}', b"[" * 9999]
)
def test_what_is_no_reply_is_none(body: bytes) -> None:
    assert isinstance(read_completions(body, EXPECTED), Failure)
    assert isinstance(read_models(body), Failure)


def test_a_stop_string_ends_a_completion_where_there_are_some() -> None:
    value = reply()
    value["choices"][0] |= choice(0, [1, 2], finish_reason="stop")
    stopping = ExpectedReply("a", (5, 6), 2, 3, 10, frozenset({EOS}), stops=True)
    assert isinstance(read(value), Failure)
    assert read(value, stopping)[0][0] == (1, 2)
    value["choices"][0]["finish_reason"] = "abort"
    assert isinstance(read(value, stopping), Failure)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
PLACES = [
    *[("model",), ("choices",), ("choices", 0), ("choices", 0, "index"), ("choices", 0, "token_ids")],
    *[("choices", 0, "token_ids", 1), ("choices", 1, "prompt_token_ids"), ("choices", 0, "logprobs")],
    *[("choices", 1, "logprobs", "token_logprobs"), ("choices", 1, "logprobs", "token_logprobs", 0)],
    ("choices", 0, "finish_reason"),
]


@given(st.sampled_from(PLACES), JSON)
def test_whatever_stands_in_a_reply_it_is_believed_only_if_all_of_it_holds(place: tuple[Any, ...], junk: Any) -> None:
    value: Any = reply()
    inner = value
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = junk
    outcome = read(value)
    if isinstance(outcome, Failure):
        assert outcome.kind == "unreadable"
        return
    assert len(outcome) == EXPECTED.group_size
    for ids, values in outcome:
        assert 1 <= len(ids) == len(values) <= EXPECTED.limit
        assert all(type(token) is int and 0 <= token < EXPECTED.vocabulary for token in ids)
        assert all(math.isfinite(value) and value <= 0 for value in values)
        assert EOS not in ids[:-1]
        assert ids[-1] == EOS or len(ids) == EXPECTED.limit


def test_a_server_says_which_are_adapters() -> None:
    body = b'{"data": [{"id": "m", "max_model_len": 9, "x": 1}, {"id": "a", "parent": "m", "root": "/a"}]}'
    assert read_models(body) == [Card("m", max_model_len=9), Card("a", "/a", "m")]
