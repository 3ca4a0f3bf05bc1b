"""Whatever a stranger's file holds, reading it gives a checked struct or a refusal with a countable reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.config.own_code import OwnCode
from swarm.errors import ProtocolError
from swarm.types import Completion, Origin, Question, RolloutGroup, RoundKey, ScoredGroup
from swarm.wire.codec import (
    DEEPEST,
    MOST_BRACKETS,
    MOST_COMPLETIONS,
    decode,
    encode,
    nests_too_deeply,
    to_claims,
    to_groups,
    to_rollout_file,
)
from swarm.wire.messages import PeerFile, PolicyInfo, RolloutFile, StateFile
from tests.unit.wire.forms import GOLDEN, PEER, ROLLOUTS

KEY = RoundKey(17)

texts = st.text(max_size=30)
numbers = st.integers(0, 2**31 - 1)
origins = st.builds(Origin, task=texts, profile=texts, seed=numbers, index=numbers, version=texts)


@st.composite
def own_groups(draw: st.DrawFn) -> list[ScoredGroup]:
    """The groups that a node publishes: of one size, each with a slot of its own."""
    size, groups = draw(st.integers(2, 4)), []
    for slot in draw(st.lists(st.integers(0, 20), min_size=1, max_size=4, unique=True)):
        question = Question(draw(texts), draw(origins), draw(st.none() | texts), {"k": draw(texts)})
        completions = tuple(Completion(draw(texts), draw(st.booleans()), (1, 2), (-0.5, -0.25)) for _ in range(size))
        rewards = tuple(draw(st.lists(st.floats(0, 1), min_size=size, max_size=size)))
        groups.append(ScoredGroup(RolloutGroup("anna", *KEY, slot, question, completions), rewards, (True,) * size))
    return groups


@given(own_groups())
def test_what_a_node_publishes_is_what_its_peers_read(groups: list[ScoredGroup]) -> None:
    file = to_rollout_file(groups, "anna", KEY, 1.5, PolicyInfo(model="tiny-qwen2", rounds_trained=3))
    read = to_groups(decode(encode(file), RolloutFile, "here"), "anna", KEY)
    sent = sorted((scored.group for scored in groups), key=lambda group: group.slot)
    assert [group.slot for group in read] == [group.slot for group in sent]
    for there, here in zip(read, sent, strict=True):
        assert (there.peer_id, there.round, there.stage, there.model) == ("anna", *KEY, "tiny-qwen2")
        assert (there.question.prompt, there.question.origin) == (here.question.prompt, here.question.origin)
        assert [(c.text, c.finished) for c in there.completions] == [(c.text, c.finished) for c in here.completions]


def test_code_that_the_user_named_is_written_as_its_text_and_what_has_no_form_in_json_is_not() -> None:
    named = encode(PolicyInfo(model=OwnCode("my.module:model")))
    assert decode(named, PolicyInfo, "here").model == "my.module:model"
    with pytest.raises(NotImplementedError):
        encode(PolicyInfo(model=object()))  # type: ignore[arg-type]


def test_lesson_the_peers_own_answer_metadata_and_reward_trusted_none_of_them_comes_out() -> None:
    changed = decode((GOLDEN / "rollouts.json").read_bytes(), RolloutFile, "here")
    for slot, entries in changed.rollouts.items():
        changed.groups[slot].answer, changed.groups[slot].metadata = "a lie", {"example_answer": "a lie"}
        for entry in entries:
            entry.reward = 1.0
    groups = to_groups(changed, "anna", KEY)
    assert groups == to_groups(ROLLOUTS, "anna", KEY)
    assert all((group.question.answer, group.question.metadata) == (None, {}) for group in groups)
    assert all(c.token_ids is None and c.logprobs is None for group in groups for c in group.completions)


# ── malformed ───────────────────────────────────────────────────────────────────────────────────────────────────────
def peer_json(**fields: object) -> bytes:
    return json.dumps({**msgspec.to_builtins(PEER), **fields}).encode()


MALFORMED = {
    "nothing": b"",
    "no object": b"[]",
    "two documents": encode(PEER) * 2,
    "not UTF-8": encode(PEER).replace(b"anna", b"\xff\xfe\xfa\xfb"),
    "UTF-16": encode(PEER).decode().encode("utf-16"),
    "lone surrogate": encode(PEER).replace(b"anna", b"\\ud800"),
    "NaN": peer_json(registered_at=float("nan")),
    "infinity": peer_json(registered_at=float("inf")),
    "infinity by overflow": encode(PEER).replace(b"1760000001.25", b"1e999"),
    "number of 400 digits": encode(PEER).replace(b"1760000001.25", b"9" * 400),
    "count beyond 2**53": peer_json(beat=2**53),
    "count of 5000 digits": encode(PEER).replace(b'"beat":121', b'"beat":' + b"9" * 5000),
    "negative count": peer_json(beat=-1),
    "fractional count": peer_json(beat=1.5),
    "flag for a count": peer_json(beat=True),
    "text for a number": peer_json(registered_at="yesterday"),
    "null for a text": peer_json(peer_id=None),
    "missing field": b'{"peer_id":"anna","registered_at":1.0}',
    "version as text": peer_json(schema_version="1"),
    "version as flag": peer_json(schema_version=True),
    "arrays 50,000 deep": b"[" * 50_000,
    "objects 50,000 deep in an unknown field": b'{"x":' * 50_000 + b"1" + b"}" * 50_000,
}


def refused(data: bytes, form: type[msgspec.Struct], where: str = "here") -> ProtocolError:
    with pytest.raises(ProtocolError) as refusal:
        decode(data, form, where)
    return refusal.value


def test_what_is_no_peer_file_is_malformed() -> None:
    for name, data in MALFORMED.items():
        error = refused(data, PeerFile, "peers/anna.json")
        assert (error.reason, "peers/anna.json is no PeerFile" in str(error)) == ("malformed", True), name
    deep = b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    in_metadata = encode(ROLLOUTS).replace(b'{"expression":"4 + 10","num_terms":2}', deep)
    assert refused(in_metadata, RolloutFile).reason == "malformed"


def test_lesson_a_torn_state_file_read_as_round_0_no_beginning_of_one_decodes() -> None:
    data = (GOLDEN / "state.json").read_bytes().rstrip()
    for size in range(len(data)):
        assert refused(data[:size], StateFile).reason == "malformed"


class Box(msgspec.Struct):
    """Holds anything."""

    within: object = None


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": 1, "b": inner}, Box])
def test_what_nests_deeper_than_the_bound_is_told_from_what_does_not(wrap: Callable[[object], object]) -> None:
    nested: object = 1
    for _ in range(DEEPEST):
        nested = wrap(nested)
    assert (nests_too_deeply(nested), nests_too_deeply(wrap(nested)), nests_too_deeply(7)) == (False, True, False)


# ── groups ──────────────────────────────────────────────────────────────────────────────────────────────────────────
def refusal_of(peer: str = "anna", key: RoundKey = KEY, **fields: Any) -> ProtocolError:
    """What the golden rollout file is refused for when these fields of it are others."""
    document = {**msgspec.json.decode(encode(ROLLOUTS)), **fields}
    file = decode(msgspec.json.encode(document), RolloutFile, "here")
    with pytest.raises(ProtocolError) as refusal:
        to_groups(file, peer, key)
    return refusal.value


def entry(prompt: str = "Calculate 4 + 10.", response: str = "14") -> dict[str, object]:
    return {"prompt": prompt, "response": response, "reward": 1.0}


def test_a_file_that_is_misplaced_oversized_or_empty_is_refused_as_that() -> None:
    for placed in ({"peer": "ben"}, {"key": RoundKey(16)}, {"key": RoundKey(17, 1)}):
        assert refusal_of(**placed).reason == "misplaced"
    for many in ({str(n): [entry()] * 2 for n in range(1025)}, {"0": [entry()] * 1025}):
        assert refusal_of(rollouts=many).reason == "oversized"
    assert refusal_of(rollouts={}).reason == "empty"
    full = msgspec.json.encode(
        msgspec.json.decode(encode(ROLLOUTS)) | {"rollouts": {"0": [entry()] * MOST_COMPLETIONS}}
    )
    (group,) = to_groups(decode(full, RolloutFile, "here"), "anna", KEY)
    assert len(group.completions) == MOST_COMPLETIONS


def test_claims_are_the_publishers_answers_and_rewards_where_it_states_them() -> None:
    document = {**msgspec.json.decode(encode(ROLLOUTS)), "groups": {"0": {"task": "bf", "answer": "14"}}}
    document["rollouts"] = {"10": [entry(), {"prompt": "", "response": ""}], "0": [entry(), entry()]}
    claims = to_claims(decode(msgspec.json.encode(document), RolloutFile, "here"))
    assert [(claim.answer, claim.rewards) for claim in claims] == [("14", (1.0, 1.0)), (None, (1.0, None))]


@pytest.mark.parametrize(
    "rollouts",
    [
        {"0": [entry()] * 2, "1": [entry()] * 3},
        {"0": [entry()]},
        {"0": []},
        {"0": [entry()] * 2, "1": []},
        {"0": [entry(), entry(prompt="Calculate 4 + 11.")]},
    ],
    ids=["two sizes", "one completion", "no completion", "an empty group", "two prompts"],
)
def test_lesson_ragged_tensors_groups_of_unlike_or_no_size_are_ragged(rollouts: dict[str, object]) -> None:
    assert refusal_of(rollouts=rollouts).reason == "ragged"


def test_a_group_key_that_is_no_slot_is_malformed_and_not_repeated_in_full_length() -> None:
    for key in ("01", "-1", "1e3", "", " 0", "+1", "1_0", "0x1", "1.0", "²", "٣", "1234567", "zero"):
        error = refusal_of(rollouts={key: [entry()] * 2})
        assert (error.reason, repr(key) in error.detail) == ("malformed", True)
    assert len(refusal_of(rollouts={"9" * 50_000: [entry()] * 2}).detail) < 120


@pytest.mark.parametrize("groups", [{}, {"0": {"task": "bf"}}, {"0": {"task": "bf", "origin": None}}])
def test_a_group_that_does_not_say_its_origin_is_refused(groups: dict[str, object]) -> None:
    assert refusal_of(groups=groups).reason == "no_origin"


def test_of_a_key_that_is_there_twice_the_last_one_counts() -> None:
    twice = b'"rollouts":{"0":[{"prompt":"first","response":""}],'
    file = decode(encode(ROLLOUTS).replace(b'"rollouts":{', twice), RolloutFile, "here")
    assert to_groups(file, "anna", KEY) == to_groups(ROLLOUTS, "anna", KEY)


NAMES = ("model", "tokenizer", "licence", "consent")


def test_names_of_any_length_are_cut() -> None:
    document = {**msgspec.json.decode(encode(ROLLOUTS)), "policy": dict.fromkeys(NAMES, "m" * 10_000)}
    file = decode(msgspec.json.encode(document), RolloutFile, "here")
    found = {len(getattr(group, name)) for group in to_groups(file, "anna", KEY) for name in NAMES}
    assert found == {80}


@pytest.mark.parametrize("value", [b"[]", b'{"a":1}'])
def test_a_file_of_nothing_but_brackets_is_refused_before_any_of_them_becomes_an_object(value: bytes) -> None:
    """Unbounded, eight megabytes of them took half a second and 200 MB to refuse."""
    data = b'{"peer_id":"anna","unknown":[' + b",".join([value] * MOST_BRACKETS) + b"]}"
    with pytest.raises(ProtocolError, match="brackets") as refusal:
        decode(data, RolloutFile, "here")
    assert refusal.value.reason == "oversized"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(st.data())
def test_a_rollout_file_with_any_value_in_any_place_gives_groups_or_is_refused(assigned: st.DataObject) -> None:
    document = msgspec.json.decode(encode(ROLLOUTS))
    places = [document, document["rollouts"], document["rollouts"]["0"][0], document["groups"], document["groups"]["0"]]
    place = assigned.draw(st.sampled_from(places))
    place[assigned.draw(st.sampled_from(sorted(place)) | texts)] = assigned.draw(json_values)
    reason = None
    try:
        to_groups(decode(json.dumps(document).encode(), RolloutFile, "here"), "anna", KEY)
    except ProtocolError as error:
        reason = error.reason
    assert reason in (None, "malformed", "wrong_version", "misplaced", "empty", "ragged", "no_origin")
