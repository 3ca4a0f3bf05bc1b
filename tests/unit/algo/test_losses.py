"""Each loss against its paper's formula, written once more with plain loops and float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from swarm.algo.losses import LOSSES, LossInputs, LossSettings, TokenCounts, denominator_of
from swarm.config import LOSSES as NAMES

SETTINGS = LossSettings(clip_low=0.2, clip_high=0.28, kl_weight=0.1)
COUNTS = TokenCounts(tokens=100, completions=7, max_new_tokens=20)
finite = st.floats(-4, 4, allow_subnormal=False)
Row = list[tuple[float, float]]
"""(log-prob, old log-prob) of each token of one completion."""
completions = st.lists(
    st.tuples(st.lists(st.tuples(finite, finite), min_size=1, max_size=4), finite), min_size=1, max_size=4
).map(lambda drawn: ([row for row, _ in drawn], [advantage for _, advantage in drawn]))
Drawn = tuple[list[Row], list[float]]
"""The completions, and an advantage for each."""


def make_inputs(
    rows: Sequence[Row], advantages: Sequence[float], *, dtype: torch.dtype = torch.float64, **more: Tensor | None
) -> LossInputs:
    lengths = torch.tensor([len(row) for row in rows])
    new, old = (torch.tensor([token[i] for row in rows for token in row], dtype=dtype) for i in (0, 1))
    extra: dict[str, Tensor | None] = {"reference_logprobs": None, "weights": None} | more
    return LossInputs(
        logprobs=new.requires_grad_(),
        old_logprobs=old,
        advantages=torch.tensor(advantages, dtype=dtype).repeat_interleave(lengths),
        own=torch.ones(len(new), dtype=torch.bool),
        completion=torch.arange(len(rows)).repeat_interleave(lengths),
        lengths=lengths,
        **extra,
    )


def minimum(ratio: float, advantage: float) -> tuple[float, float]:
    """(min(r A, clip(r) A), whether the clip took the gradient)."""
    clipped = min(max(ratio, 0.8), 1.28)
    return min(ratio * advantage, clipped * advantage), clipped * advantage < ratio * advantage


def token_mean(rows: Sequence[Row], advantages: Sequence[float]) -> list[float]:
    return [-minimum(math.exp(n - o), a)[0] for row, a in zip(rows, advantages, strict=True) for n, o in row]


def sequence_mean(rows: Sequence[Row], advantages: Sequence[float]) -> list[float]:
    return [loss / len(row) for row, a in zip(rows, advantages, strict=True) for loss in token_mean([row], [a])]


def sequence_ratio(rows: Sequence[Row], advantages: Sequence[float]) -> list[float]:
    result = []
    for row, advantage in zip(rows, advantages, strict=True):
        ratio = math.exp(sum(n - o for n, o in row) / len(row))
        result += [-minimum(ratio, advantage)[0] / len(row)] * len(row)
    return result


def clipped_weight(rows: Sequence[Row], advantages: Sequence[float]) -> list[float]:
    pairs = [(n, o, a) for row, a in zip(rows, advantages, strict=True) for n, o in row]
    return [-min(max(math.exp(n - o), 0.8), 1.28) * a * n for n, o, a in pairs]


FORMULAS: dict[str, tuple[Callable[[Sequence[Row], Sequence[float]], list[float]], int]] = {
    "grpo": (token_mean, 100),
    "grpo_sequence": (sequence_mean, 7),
    "dr_grpo": (token_mean, 7 * 20),
    "gspo": (sequence_ratio, 7),
    "cispo": (clipped_weight, 100),
    "grpo_masked": (token_mean, 100),  # all rows are the own policy's here: nothing is masked
}


@pytest.mark.parametrize("name", NAMES)
@given(completions)
def test_a_loss_is_the_formula_of_its_paper(name: str, drawn: Drawn) -> None:
    formula, divisor = FORMULAS[name]
    losses = LOSSES[name](make_inputs(*drawn), SETTINGS)
    torch.testing.assert_close(losses.loss.detach(), torch.tensor(formula(*drawn), dtype=torch.float64))
    assert denominator_of(LOSSES[name])(COUNTS) == divisor


CLIPPED = sorted(set(FORMULAS) - {"cispo"})
"""Those whose gradient ends at the clip."""


@pytest.mark.parametrize("name", CLIPPED)
@given(completions)
def test_the_gradient_is_that_of_the_formula_and_what_the_clip_took_is_told(name: str, drawn: Drawn) -> None:
    inputs = make_inputs(*drawn)
    losses = LOSSES[name](inputs, SETTINGS)
    losses.loss.sum().backward()
    assert inputs.logprobs.grad is not None
    slopes, clipped = list[float](), list[bool]()
    for row, advantage in zip(*drawn, strict=True):
        mean = sum(n - o for n, o in row) / len(row)
        for n, o in row:
            ratio = math.exp(mean if name == "gspo" else n - o)
            if min(abs(ratio - 0.8), abs(ratio - 1.28)) < 1e-9:
                return  # a kink
            clipped.append(minimum(ratio, advantage)[1])
            slope = 0.0 if clipped[-1] else -ratio * advantage
            slopes.append(slope / (1 if name in ("grpo", "dr_grpo", "grpo_masked") else len(row)))
    torch.testing.assert_close(inputs.logprobs.grad, torch.tensor(slopes, dtype=torch.float64))
    assert losses.clipped is not None
    assert losses.clipped.tolist() == clipped


@given(completions, st.lists(st.booleans(), min_size=4, max_size=4), st.floats(-4, -0.1))
def test_masked_grpo_is_grpo_without_unlikely_external_completions_of_negative_advantage(
    drawn: Drawn, own: list[bool], floor: float
) -> None:
    inputs = make_inputs(*drawn)
    own_M = torch.tensor(own[: len(drawn[0])])[inputs.completion]
    losses = LOSSES["grpo_masked"](inputs._replace(own=own_M), SETTINGS._replace(mask_below=floor))
    expected: list[float] = []
    for row, advantage, mine in zip(*drawn, own, strict=False):
        mean = sum(old for _, old in row) / len(row)
        if abs(mean - floor) < 1e-9:
            return
        masked = not mine and advantage < 0 and mean < floor
        expected += [0.0] * len(row) if masked else token_mean([row], [advantage])
    torch.testing.assert_close(losses.loss.detach(), torch.tensor(expected, dtype=torch.float64))


def test_cispo_keeps_the_gradient_of_every_token() -> None:
    inputs = make_inputs([[(math.log(3.0), 0.0)], [(math.log(0.1), 0.0)], [(0.0, 0.0)]], [1.0, -1.0, 0.5])
    LOSSES["cispo"](inputs, SETTINGS).loss.sum().backward()
    torch.testing.assert_close(inputs.logprobs.grad, torch.tensor([-1.28, 0.8, -0.5], dtype=torch.float64))


@pytest.mark.parametrize("name", NAMES)
def test_tokens_are_weighed_and_the_penalty_is_added_to_them(name: str) -> None:
    row: Row = [(-1.0, -1.0), (-2.0, -2.0)]
    weights, reference = torch.tensor([0.5, 2.0]).double(), torch.tensor([-1.5, -1.0]).double()
    plain = LOSSES[name](make_inputs([row], [1.0]), SETTINGS).loss
    both = LOSSES[name](make_inputs([row], [1.0], weights=weights, reference_logprobs=reference), SETTINGS).loss
    share = 2 if name in ("grpo_sequence", "gspo") else 1
    log_ratio = reference - torch.tensor([-1.0, -2.0]).double()
    penalty = 0.1 * (log_ratio.exp() - log_ratio - 1) / share  # "k3"
    torch.testing.assert_close(both, plain * weights + penalty)
