"""Drawing: which tokens may come, how often they do, and which log-probs are reported."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from swarm.policy.draw import Sampling, block_of, draw_tokens, invert, truncate
from swarm.policy.generate import draw_uniforms

PLAIN = Sampling()
PROBS = torch.tensor([[0.1, 0.5, 0.15, 0.25]])


def test_frequencies_follow_the_tempered_distribution() -> None:
    logits, count = torch.tensor([2.0, 0.0, 1.0, -1.0]), 20_000
    uniforms = draw_uniforms(1, count, 1, seed=0).flatten()
    tokens, logprobs = draw_tokens(logits.expand(count, 4), uniforms, Sampling(temperature=2.0))
    expected = (logits / 2).softmax(dim=0)
    torch.testing.assert_close(tokens.bincount(minlength=4) / count, expected, atol=0.015, rtol=0)
    torch.testing.assert_close(logprobs, expected.log()[tokens])


@given(st.floats(0, 1, exclude_max=True), st.integers(0, 3), st.sampled_from([1.0, 0.5]), st.sampled_from([0, 0.1, 1]))
def test_tokens_without_probability_are_never_drawn(uniform: float, top_k: int, top_p: float, min_p: float) -> None:
    logits = torch.tensor([[-torch.inf, 1.0, -torch.inf, 0.5, -torch.inf]])
    sampling = Sampling(top_p=top_p, top_k=top_k, min_p=min_p)
    token, _ = draw_tokens(logits, torch.tensor([uniform], dtype=torch.float64), sampling)
    assert token.item() in (1, 3)


def test_uniform_next_to_one_draws_the_last_possible_token() -> None:
    logits = torch.tensor([[0.3, 1.0, 0.2, -torch.inf]])
    uniform = torch.tensor([1 - 2**-53], dtype=torch.float64)
    assert draw_tokens(logits, uniform, PLAIN)[0].item() == 2


@given(
    st.lists(st.integers(0, 3), min_size=130, max_size=200).filter(any),
    st.sampled_from([0.0, 0.25, 0.5, 1 - 2**-53]) | st.floats(0, 1, exclude_max=True),
)
def test_sums_of_blocks_draw_the_token_that_one_sum_over_all_draws(weights: list[int], uniform: float) -> None:
    """Whole numbers add up without rounding in any order."""
    weight, share = torch.tensor([weights], dtype=torch.float32), torch.tensor([[uniform]], dtype=torch.float64)
    token = invert(weight, share, block=8)
    assert token == invert(weight, share)
    assert weights[int(token)], "a token without weight"


def test_a_vocabulary_is_parted_without_padding_where_it_can_be() -> None:
    assert {size: block_of(size) for size in (264, 4096, 50_257, 128_256, 151_936)} == {
        264: None,
        4096: None,
        50_257: 256,
        128_256: 256,
        151_936: 128,
    }


def test_blocks_of_nan_draw_some_token() -> None:
    assert (
        0 <= invert(torch.full((1, 200), torch.nan), torch.tensor([[0.5]], dtype=torch.float64), block=8).item() < 200
    )


@given(st.integers(0, 2**32), st.integers(0, 12), st.floats(0.05, 1), st.floats(0, 1))
def test_truncations_together_are_each_after_the_other(seed: int, top_k: int, top_p: float, min_p: float) -> None:
    probs = torch.randn(3, 9, generator=torch.Generator().manual_seed(seed)).softmax(dim=1)
    together = truncate(probs, Sampling(top_p=top_p, top_k=top_k, min_p=min_p))
    expected = torch.zeros_like(probs)
    for row, kept in zip(probs.tolist(), expected, strict=True):
        likeliest = sorted(range(9), key=lambda token: -row[token])[: top_k or 9]
        mass, before = sum(row[token] for token in likeliest), 0.0
        for token in likeliest:
            near = abs(before - top_p * mass) < 1e-6 or abs(row[token] - min_p * max(row)) < 1e-6
            if near:  # decided by rounding
                kept[token] = torch.nan
            elif before < top_p * mass and row[token] >= min_p * max(row):
                kept[token] = row[token]
            before += row[token]
    decided = expected.isfinite()
    assert torch.equal(together[decided], expected[decided])


@pytest.mark.parametrize("sampling", [Sampling(0.7, top_k=2), Sampling(0.7, top_p=0.7), Sampling(0.7, min_p=0.3)])
def test_logprobs_are_those_before_truncation(sampling: Sampling) -> None:
    logits = PROBS.log().expand(50, 4)
    tokens, logprobs = draw_tokens(logits, draw_uniforms(1, 50, 1, seed=1).flatten(), sampling)
    assert set(tokens.tolist()) == {1, 3}
    torch.testing.assert_close(logprobs, (logits[0] / 0.7).log_softmax(dim=0)[tokens])
