"""A stranger's ids and log-probs: used where they fit the text that was judged, otherwise as if they were not there."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import pytest

from swarm.policy.batch import BatchRow, claim_holds, encode_groups
from swarm.policy.model import LanguageModel
from swarm.types import Completion, TrainGroup
from tests.unit.policy.factories import make_model

MODEL = make_model()
BYTES = {chr(byte): MODEL.tokenizer(chr(byte))["input_ids"][0] for byte in (10, *range(32, 127))}
EOS = MODEL.eos_id


def claim(text: str = "ab", *, finished: bool = True) -> Completion:
    ids = (*(BYTES[letter] for letter in text), *([EOS] if finished else []))
    return Completion(text, finished, ids, tuple(-0.5 * (i + 1) for i in range(len(ids))))


def group_of(completion: Completion, tokenizer: str = MODEL.tokenizer_digest) -> TrainGroup:
    return TrainGroup("?", (completion,), (1.0,), external=True, tokenizer=tokenizer)


def row_of(group: TrainGroup, *, use_claims: bool = True, model: LanguageModel = MODEL) -> BatchRow:
    (row,) = encode_groups([group], model, all_rows=True, use_claims=use_claims).rows
    return row


@pytest.mark.parametrize("finished", [True, False])
def test_claim_that_fits_is_used(finished: bool) -> None:
    completion = claim(finished=finished)
    row = row_of(group_of(completion))
    assert row.token_ids == completion.token_ids
    assert row.behaviour_logprobs == completion.logprobs
    assert not row.own


def changed(**changes: object) -> Callable[[], TrainGroup]:
    return lambda: group_of(msgspec.structs.replace(claim(), **changes))


LIES: dict[str, Callable[[], TrainGroup]] = {
    "another tokenizer": lambda: group_of(claim(), tokenizer="other"),
    "no tokenizer named": lambda: group_of(claim(), tokenizer=""),
    "other text": changed(text="ba"),
    "no ids": changed(token_ids=None),
    "empty ids": changed(token_ids=(), logprobs=()),
    "no log-probs": changed(logprobs=None),
    "too few log-probs": changed(logprobs=(-1.0, -1.0)),
    "positive log-prob": changed(logprobs=(-1.0, 0.1, -1.0)),
    "infinite log-prob": changed(logprobs=(-1.0, -math.inf, -1.0)),
    "log-prob is not a number": changed(logprobs=(-1.0, math.nan, -1.0)),
    "last id is text, not end-of-text": changed(text="a", token_ids=(BYTES["a"], BYTES["b"]), logprobs=(-1.0, -1.0)),
    "finished without end-of-text": changed(token_ids=(BYTES["a"], BYTES["b"]), logprobs=(-1.0, -1.0)),
    "unfinished with end-of-text": changed(finished=False),
    "end-of-text in the middle": changed(token_ids=(BYTES["a"], EOS, BYTES["b"], EOS), logprobs=(-1.0,) * 4),
    "invisible special token": changed(
        token_ids=(BYTES["a"], MODEL.tokenizer.convert_tokens_to_ids("<|im_start|>"), BYTES["b"], EOS),
        logprobs=(-1.0,) * 4,
    ),
    "id beyond the vocabulary": changed(token_ids=(BYTES["a"], BYTES["b"], 10**9, EOS), logprobs=(-1.0,) * 4),
    "negative id": changed(token_ids=(BYTES["a"], BYTES["b"], -1, EOS), logprobs=(-1.0,) * 4),
}


@pytest.mark.parametrize("lie", LIES)
def test_claim_that_does_not_fit_is_encoded_from_the_text(lie: str) -> None:
    group = LIES[lie]()
    (completion,) = group.completions
    assert not claim_holds(completion, group, MODEL)
    plain = Completion(completion.text, completion.finished)
    assert row_of(group).token_ids == row_of(group_of(plain)).token_ids
    assert row_of(group).behaviour_logprobs is None


def test_claims_are_not_looked_at_unless_asked_for() -> None:
    row = row_of(group_of(claim()), use_claims=False)
    assert row.behaviour_logprobs is None


def test_claim_may_split_the_text_as_the_publisher_did() -> None:
    """The same text has many encodings; the log-probs are those of one."""
    model = make_model(tokenizer=merging_tokenizer())
    a, b, ab = (model.tokenizer.convert_tokens_to_ids(token) for token in ("a", "b", "ab"))
    assert model.tokenizer("ab")["input_ids"] == [ab]
    completion = Completion("ab", False, (a, b), (-1.0, -2.0))
    row = row_of(group_of(completion, model.tokenizer_digest), model=model)
    assert row.token_ids == (a, b)


def merging_tokenizer() -> object:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate([*alphabet, "ab"])}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[("a", "b")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|endoftext|>")


@pytest.mark.parametrize("external", [False, True])
def test_own_completion_that_a_stop_string_ended_is_read_back_as_it_was_and_a_strangers_is_not(external: bool) -> None:
    stopped = Completion("ab", finished=True, token_ids=(BYTES["a"], BYTES["b"]), logprobs=(-1.0, -1.0))
    group = msgspec.structs.replace(group_of(stopped), external=external)
    assert claim_holds(stopped, group, MODEL) is not external
