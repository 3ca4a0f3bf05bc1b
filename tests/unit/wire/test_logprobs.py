"""Token ids and log-probs beside a text: a hint that arrives in order or not at all, and never costs the text."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.errors import ProtocolError
from swarm.types import Completion, Origin, Question, RolloutGroup, RoundKey, ScoredGroup
from swarm.wire.codec import (
    LOGPROB_DECIMALS,
    MOST_TOKENS,
    MOST_TOKENS_OF_FILE,
    decode,
    encode,
    to_groups,
    to_rollout_file,
)
from swarm.wire.messages import PolicyInfo, RolloutFile
from tests.unit.wire.forms import GOLDEN, ROLLOUTS_WITH_LOGPROBS

KEY = RoundKey(17)
POLICY = PolicyInfo(model="tiny-qwen2", tokenizer="8c1f", temperature=0.7)

sampled = st.lists(st.tuples(st.integers(0, 2**31 - 1), st.floats(-1e6, 0.0)), max_size=20)
odd_values = st.sampled_from([-1, 2**31, 1e-9, 2.5, True, None, "1", [1], {}])
ids_lists = st.lists(st.integers(0, 3) | odd_values, max_size=3)
logprob_lists = st.lists(st.floats(-9, 0) | st.integers(-9, 0) | odd_values, max_size=3)


def completion(tokens: list[tuple[int, float]]) -> Completion:
    return Completion("14", True, tuple(token for token, _ in tokens), tuple(logprob for _, logprob in tokens))


def published(*completions: Completion, with_logprobs: bool = True) -> bytes:
    """The file of a node with one group."""
    question = Question("Calculate 4 + 10.", Origin("basic_arithmetic", "tiny", 1, 0, "0.1.25"), "14")
    group = RolloutGroup("anna", *KEY, 0, question, completions)
    scored = ScoredGroup(group, (0.0,) * len(completions), (False,) * len(completions))
    return encode(to_rollout_file([scored], "anna", KEY, 1.5, POLICY, with_logprobs=with_logprobs))


def read(data: bytes) -> RolloutGroup:
    """The first group of a file, as a peer has it."""
    return to_groups(decode(data, RolloutFile, "here"), "anna", KEY)[0]


def hinting(**hints: Any) -> bytes:
    """The golden file, its first completion with these token fields instead of its own; without those that are "-"."""
    document = json.loads((GOLDEN / "rollouts_with_logprobs.json").read_bytes())
    first = document["rollouts"]["0"][0] | hints
    document["rollouts"]["0"][0] = {name: value for name, value in first.items() if value != "-"}
    return json.dumps(document).encode()


# ── published and read ──────────────────────────────────────────────────────────────────────────────────────────────
@given(st.lists(sampled, min_size=2, max_size=4))
def test_peers_read_the_sampled_ids_and_the_log_probs_to_five_decimals(group: list[list[tuple[int, float]]]) -> None:
    there = read(published(*map(completion, group)))
    assert there.tokenizer == "8c1f"
    for arrived, tokens in zip(there.completions, group, strict=True):
        assert arrived.token_ids == tuple(token for token, _ in tokens)
        assert arrived.logprobs == tuple(round(logprob, LOGPROB_DECIMALS) for _, logprob in tokens)


def test_a_node_that_does_not_wish_it_publishes_nothing_of_its_tokens() -> None:
    data = published(*[completion([(7, -0.5)])] * 2, with_logprobs=False)
    document = json.loads(data)
    assert set(document["policy"]) == {"model", "rounds_trained"}
    assert {key for entry in document["rollouts"]["0"] for key in entry} == {
        "prompt", "response", "reward", "finished",
    }  # fmt: skip
    assert read(data).tokenizer == ""


def test_a_log_prob_that_floats_put_above_zero_is_published_as_zero() -> None:
    there = read(published(*[completion([(7, 2e-4)])] * 2))
    assert there.completions[0].logprobs == (0.0,)


def test_what_no_peer_would_take_is_not_published() -> None:
    broken: dict[str, tuple[object, ...]] = {
        "neither": (),
        "ids alone": ((7, 8),),
        "fewer log-probs": ((7, 8), (-0.5,)),
        "NaN": ((7,), (math.nan,)),
        "minus infinity": ((7,), (-math.inf,)),
        "too many": ((7,) * (MOST_TOKENS + 1), (-0.5,) * (MOST_TOKENS + 1)),
    }
    said = [Completion("14", True, *hints) for hints in broken.values()]  # type: ignore[arg-type]
    entries = json.loads(published(*said, completion([(7, -0.5)])))["rollouts"]["0"]
    assert ["token_ids" in entry or "logprobs" in entry for entry in entries] == [False] * len(broken) + [True]


# ── broken hints ────────────────────────────────────────────────────────────────────────────────────────────────────
BROKEN: dict[str, dict[str, Any]] = {
    "more ids than log-probs": {"token_ids": [1, 2], "logprobs": [-0.5]},
    "more log-probs than ids": {"token_ids": [1], "logprobs": [-0.5, -0.5]},
    "no ids": {"token_ids": "-"},
    "no log-probs": {"logprobs": "-"},
    "too many": {"token_ids": [1] * (MOST_TOKENS + 1), "logprobs": [-0.5] * (MOST_TOKENS + 1)},
    "null": {"token_ids": None, "logprobs": None},
    "an id of 400 digits": {"token_ids": [10**400], "logprobs": [-0.5]},
    "a log-prob of 400 digits": {"token_ids": [1], "logprobs": [-(10**400)]},
    "texts": {"token_ids": "14", "logprobs": "-0.5"},
    "objects": {"token_ids": {"0": 1}, "logprobs": {"0": -0.5}},
}


def test_a_broken_hint_is_dropped_and_costs_neither_the_text_nor_the_others_hints() -> None:
    for name, hints in BROKEN.items():
        first, second = read(hinting(**hints)).completions
        assert first == Completion("14", True), name
        assert second == Completion("4 +", False, (23, 285), (-2.0, 0.0)), name


def test_as_many_tokens_as_allowed_are_read() -> None:
    first = read(hinting(token_ids=[2**31 - 1] * MOST_TOKENS, logprobs=[-1e300] * MOST_TOKENS)).completions[0]
    assert len(first.token_ids or ()) == len(first.logprobs or ()) == MOST_TOKENS


@given(ids_lists, logprob_lists)
def test_whatever_the_lists_hold_both_are_in_range_or_neither_is_there(ids: list[Any], logprobs: list[Any]) -> None:
    first = read(hinting(token_ids=ids, logprobs=logprobs)).completions[0]
    assert (first.text, first.finished) == ("14", True)
    assert (first.token_ids is None) == (first.logprobs is None)
    if first.token_ids is not None and first.logprobs is not None:
        assert list(first.token_ids) == ids
        assert list(first.logprobs) == logprobs
        assert all(type(token) is int and 0 <= token < 2**31 for token in first.token_ids)
        assert all(type(value) is float and value <= 0 for value in first.logprobs)


@pytest.mark.parametrize("number", [b"NaN", b"-Infinity", b"-", b"-0.5 0.5"])
def test_what_is_no_json_makes_the_file_malformed_in_a_hint_too(number: bytes) -> None:
    data = encode(ROLLOUTS_WITH_LOGPROBS).replace(b"-0.69315", number)
    with pytest.raises(ProtocolError) as refusal:
        read(data)
    assert refusal.value.reason == "malformed"


@pytest.mark.parametrize("number", [b"-1e999", b"9" * 5000, b"-" + b"9" * 5000, b"0." + b"9" * 10**6])
def test_a_number_that_no_double_holds_is_a_broken_hint_and_costs_no_more(number: bytes) -> None:
    first, second = read(encode(ROLLOUTS_WITH_LOGPROBS).replace(b"-0.69315", number)).completions
    assert (first.token_ids, first.logprobs) == (None, None)
    assert second.logprobs == (-2.0, 0.0)


def test_the_tokens_of_a_file_are_read_up_to_a_number_and_the_texts_behind_them_without() -> None:
    """Eight megabytes of them took 170 ms and 75 MB, whether or not the file was then refused."""
    document = msgspec.json.decode(encode(ROLLOUTS_WITH_LOGPROBS))
    entry = {**document["rollouts"]["0"][0], "token_ids": [1] * MOST_TOKENS, "logprobs": [-1] * MOST_TOKENS}
    that_fit = MOST_TOKENS_OF_FILE // MOST_TOKENS
    document["rollouts"]["0"] = [entry] * (that_fit + 2)
    group = read(msgspec.json.encode(document))
    assert [bool(c.token_ids) for c in group.completions] == [True] * that_fit + [False] * 2
    assert {c.text for c in group.completions} == {entry["response"]}


def test_the_tokens_of_all_groups_of_a_file_count_together() -> None:
    document = msgspec.json.decode(encode(ROLLOUTS_WITH_LOGPROBS))
    entry, origin = document["rollouts"]["0"][0], document["groups"]["0"]
    full = {**entry, "token_ids": [1] * MOST_TOKENS, "logprobs": [-1] * MOST_TOKENS}
    half = MOST_TOKENS_OF_FILE // MOST_TOKENS // 2
    plain = {"prompt": entry["prompt"], "response": "14"}
    document["rollouts"] = {"0": [plain] * half, "1": [full] * half, "2": [full] * half, "3": [full] * half}
    document["groups"] = dict.fromkeys(document["rollouts"], origin)
    groups = to_groups(decode(msgspec.json.encode(document), RolloutFile, "here"), "anna", RoundKey(17))
    assert [{bool(c.token_ids) for c in group.completions} for group in groups] == [{False}, {True}, {True}, {False}]
