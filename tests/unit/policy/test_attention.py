"""Grouped heads attend as transformers' sdpa has them do, whichever way they do without copies."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import GemmaConfig

from swarm.policy.attention import NAME, folded, grouped_attention, use_grouped
from swarm.policy.model import LanguageModel, wrap_model
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
    return ours, theirs


@pytest.mark.parametrize("name", CONFIGS)
def test_a_model_with_grouped_heads_computes_the_same_gradient(name: str) -> None:
    ours, theirs = models(name)
    assert ours.module.config._attn_implementation == NAME
    assert largest_gap(gradient_of(ours, GROUPS), gradient_of(theirs, GROUPS)) < 1e-5


def test_a_model_without_groups_and_one_that_was_given_another_attention_are_left_alone() -> None:
    for architecture, attention in ("gpt2", "sdpa"), ("qwen2", "eager"):
        module = make_module(architecture)
        module.set_attn_implementation(attention)
        use_grouped(module)
        assert module.config._attn_implementation == attention
