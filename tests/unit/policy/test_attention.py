"""Grouped heads attend as transformers' sdpa has them do, whichever way they do without copies."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import Gemma2Config, GemmaConfig

from swarm.policy.attention import EAGER, SDPA, folded, grouped_attention, use_attention
from swarm.policy.batch import BatchRow
from swarm.policy.forward import hidden_states
from swarm.policy.model import LanguageModel, wrap_model
from swarm.policy.stack import stack_rows
from tests.unit.policy.factories import (
    CPU,
    SHAPE,
    gradient_of,
    largest_gap,
    make_config,
    make_group,
    make_module,
    make_tokenizer,
)

CONFIGS = {
    **{name: make_config(name) for name in ("qwen2", "llama", "sliding")},
    "gemma": GemmaConfig(**SHAPE | {"num_key_value_heads": 1}, head_dim=8),
}
GROUPS = [
    make_group(),
    make_group("What is the capital of Peru, and since when?", ("Lima", "<answer>Lima</answer>", "I do not know")),
]


def repeated(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    groups = query.shape[1] // key.shape[1]
    return scaled_dot_product_attention(
        query, key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1), mask
    )


@given(
    rows=st.integers(1, 3),
    of_keys=st.integers(1, 3),
    groups=st.integers(1, 4),
    queries=st.integers(1, 5),
    more=st.integers(0, 4),
    per_head=st.booleans(),
    additive=st.booleans(),
    seed=st.integers(0, 999),
)
def test_heads_of_a_group_attend_as_if_each_had_keys_of_its_own(
    rows: int, of_keys: int, groups: int, queries: int, more: int, per_head: bool, additive: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    heads, columns = of_keys * groups, queries + more
    query = torch.randn(rows, heads, queries, 8, dtype=torch.float64)
    key, value = torch.randn(2, rows, of_keys, columns, 8, dtype=torch.float64)
    mask = torch.rand(rows, heads if per_head else 1, queries, columns) < 0.7
    mask[..., 0] = True
    if additive:
        mask = torch.where(mask, torch.randn(mask.shape, dtype=torch.float64), -torch.inf)
    expected = repeated(query, key, value, mask)
    assert torch.allclose(folded(query, key, value, mask), expected)
    found, _ = grouped_attention(torch.nn.Module(), query, key, value, mask)
    assert torch.allclose(found.transpose(1, 2), expected)


def models(name: str) -> tuple[LanguageModel, LanguageModel]:
    """The same weights as we load them, and with transformers' own attention."""
    module = make_module(config=CONFIGS[name])
    ours, theirs = (
        wrap_model(name, copy.deepcopy(module), make_tokenizer(), device=CPU, max_new_tokens=12) for _ in range(2)
    )
    theirs.module.set_attn_implementation("sdpa")
    return ours, replace(theirs, packs=False)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_model_with_grouped_heads_computes_the_same_gradient(name: str) -> None:
    ours, theirs = models(name)
    assert ours.module.config._attn_implementation == SDPA
    assert largest_gap(gradient_of(ours, GROUPS), gradient_of(theirs, GROUPS)) < 1e-5


def test_a_model_that_leaves_no_choice_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for attention, of_ours in (("sdpa", SDPA), ("eager", EAGER)):
        module = make_module("gpt2")
        module.set_attn_implementation(attention)
        assert use_attention(module)
        assert module.config._attn_implementation == of_ours
    module = make_module("gpt2")
    monkeypatch.setattr(type(module), "_can_set_attn_implementation", lambda _: False)
    before = module.config._attn_implementation
    assert not use_attention(module)
    assert module.config._attn_implementation == before


@given(
    lengths=st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4), min_size=1, max_size=3),
    prompts=st.lists(st.integers(1, 12), min_size=3, max_size=3),
    name=st.sampled_from([*CONFIGS, "gpt2", "gpt2 eager", "gemma2"]),
    seed=st.integers(0, 99),
)
@settings(max_examples=40)
def test_packed_rows_are_computed_as_each_row_by_itself(
    lengths: list[list[int]], prompts: list[int], name: str, seed: int
) -> None:
    """Windows, soft caps and plain attention, groups of heads and none, rows of one token."""
    model, random = packing_model(name), Random(seed)

    def ids(length: int) -> tuple[int, ...]:
        return tuple(random.randrange(200) for _ in range(length))

    rows = [
        BatchRow(group, prompt, ids(length), range(length), 1.0, own=True, behaviour_logprobs=None)
        for group, (of_group, prompt) in enumerate(zip(lengths, map(ids, prompts), strict=False))
        for length in of_group
    ]
    rows.sort(key=lambda row: len(row.token_ids))
    passes = [replace(model, packs=packs) for packs in (True, False)]
    packed, padded = (hidden_states(one, stack_rows(rows, one).forward) for one in passes)
    assert torch.allclose(packed, padded, atol=1e-4, rtol=1e-4), (packed - padded).abs().max()


@cache
def packing_model(name: str) -> LanguageModel:
    """A window is four tokens wide."""
    kind, _, attention = name.partition(" ")
    configs = {**CONFIGS, "gpt2": make_config("gpt2"), "gemma2": Gemma2Config(**SHAPE, head_dim=8, sliding_window=4)}
    module = make_module(config=configs[kind])
    if attention:
        module.set_attn_implementation(attention)
    model = wrap_model(name, module, make_tokenizer(), device=CPU, max_new_tokens=12)
    assert model.packs
    return model
