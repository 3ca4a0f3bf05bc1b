"""The matrix that turns a model's hidden states into logits, if it is one.

Almost always one matrix, whose log-probs can be had without ever holding all logits; otherwise the model must be asked.

Sizes: D hidden size, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from swarm.policy.model import LanguageModel


@dataclass(frozen=True)
class LinearHead:
    """logits = scale * cap(hidden @ weight^T + bias), where cap(z) = soft_cap * tanh(z / soft_cap), if there is one."""

    weight: Tensor
    """[V, D]."""
    bias: Tensor | None = None
    """[V]."""
    soft_cap: float | None = None
    """Gemma 2's final_logit_softcapping."""
    scale: float = 1.0
    """Cohere's logit_scale, or one by Granite's logits_scaling."""

    @classmethod
    def of(cls, model: LanguageModel) -> LinearHead | None:
        """The model's head; None if it is anything but a plain matrix, such as a quantised or adapted one."""
        layer = model.module.get_output_embeddings()
        if type(layer) is not nn.Linear:
            return None
        text: Any = model.module.config.get_text_config()
        factor = getattr(text, "logit_scale", None) or 1.0
        divisor = getattr(text, "logits_scaling", None) or 1.0
        return cls(layer.weight, layer.bias, getattr(text, "final_logit_softcapping", None), factor / divisor)
