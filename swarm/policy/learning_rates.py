"""Adam's step size where nobody chooses one: by kind of model and adapter, and where each comes from. Imports no torch.

A model that is not embedded is one of OTHERS, whatever its size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

OTHERS = "others"
FULL, LORA = "none", "lora"
"""Adapters: none, so that all weights are trained, and low-rank ones beside frozen weights."""
LORA_FACTOR = 10
"""Factor of the rate of full fine-tuning, where no rate of adapters has been measured: "LoRA Without Regret" (Thinking
Machines, 2025) found its optimum at about ten times that of full fine-tuning, for supervised training and for RL."""
_OURS = "measured: learns within forty rounds, and not so fast that the first ten are over before one looks"
_OURS_LORA = (
    "measured: of 1e-3, 2e-3 and 3e-3 at rank 16 the one that learns most in forty rounds "
    "(benchmarks/results/README.md, Adapters)"
)
_GRPO = "the policy's rate of GRPO (DeepSeekMath, arXiv:2402.03300, section 4.2), and the default of TRL's GRPOTrainer"


class Suited(NamedTuple):
    """A learning rate and its source."""

    rate: float
    source: str


TABLE: Mapping[str, Mapping[str, Suited]] = {
    "tiny-2-qwen2": {FULL: Suited(3e-4, _OURS), LORA: Suited(2e-3, _OURS_LORA)},
    "tiny-2-gpt2": {FULL: Suited(3e-4, _OURS)},
    "tiny-2-qwen2-rare": {FULL: Suited(2e-4, _OURS)},
    "tiny-2-qwen2-content": {FULL: Suited(3e-4, _OURS)},
    "tiny-qwen2": {FULL: Suited(3e-4, _OURS)},
    "tiny-gpt2": {FULL: Suited(2e-4, _OURS)},
    "tiny-qwen2-rare": {FULL: Suited(2e-4, _OURS)},
    OTHERS: {FULL: Suited(1e-6, _GRPO)},
}
"""Model -> adapter -> what suits them; without a row for an adapter: LORA_FACTOR times that of full fine-tuning."""


def suited_learning_rate(model: str, adapter: str = FULL) -> Suited:
    """Returns the learning rate that suits a model, trained by itself or through an adapter.

    Args:
        model: an embedded name; every other one is one of OTHERS.
        adapter: FULL or LORA.
    """
    rows = TABLE.get(model, TABLE[OTHERS])
    if adapter in rows:
        return rows[adapter]
    full = rows[FULL]
    return Suited(full.rate * LORA_FACTOR, f"{LORA_FACTOR} times that of full fine-tuning ({full.source})")
