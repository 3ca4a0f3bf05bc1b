"""Merges an adapter that is not plain LoRA into its base by PEFT itself, which alone knows what all its keys mean.

    module, folder ─PeftModel─▶ every tensor of the file is taken ─merge_and_unload─▶ module
                                └ some tokens: logits of the adapter ─── equal? ───┘ else ModelError

Some kinds cannot be merged, and some merges are none: a prompt is no weight, an expert is chosen token by token. So
what came out is held against the adapter itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from swarm.errors import ModelError
from swarm.harmless import printable
from swarm.policy.peft_form import WEIGHTS

_TOKENS = 16
_TOLERANCE = 1e-2
"""Share of the largest logit: in bf16 a merge rounds. Wrong merges were off by half of it and more."""
_MERGE_IT = "Merge it with PEFT (merge_and_unload), and name the result as MODEL_NAME"


@torch.no_grad()
def merged(name: str, module: Any, folder: Path, odd: Sequence[str]) -> Any:
    """Returns the base with the adapter in its weights; the module that was given is used up.

    Args:
        odd: what it has beyond plain LoRA, for messages.

    Raises:
        ModelError: PEFT cannot do it, or what comes out is another model.
    """
    from peft import PeftModel, PromptLearningConfig, get_peft_model_state_dict

    said = ", ".join(odd)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            wrapped = PeftModel.from_pretrained(module, str(folder), is_trainable=False).eval()
        if isinstance(wrapped.active_peft_config, PromptLearningConfig):
            raise ModelError(f"model {name!r}: its adapter ({said}) is a prompt, and no part of weights.")
        if missing := [str(one.message) for one in warned if "missing" in str(one.message)]:
            raise ModelError(f"model {name!r}: its adapter ({said}) is not whole: {printable(missing[0])[:300]}.")
        with safe_open(folder / WEIGHTS, framework="pt") as file:
            given = set(file.keys())
        used = get_peft_model_state_dict(wrapped, save_embedding_layers=False).keys() | _plain_names(wrapped)
        if unused := sorted(given - used):
            raise ModelError(
                f"model {name!r}: its adapter ({said}) has a tensor {printable(unused[0])!r} that PEFT does not use. "
                f"{_MERGE_IT}."
            )
        expected = _logits(wrapped, module)
        whole = wrapped.merge_and_unload()
        _untie(whole)
        got = _logits(whole, whole)
    except ModelError:
        raise
    except Exception as error:  # of fifty kinds each fails in its own way
        reason = printable(f"{type(error).__name__}: {error}")[:300]
        raise ModelError(f"model {name!r}: PEFT cannot merge its adapter ({said}) into it: {reason}.") from error
    if got.shape != expected.shape or not (got - expected).abs().max() <= _TOLERANCE * (1 + expected.abs().max()):
        raise ModelError(
            f"model {name!r}: its adapter ({said}) gives other logits merged than beside its base: it cannot be merged."
        )
    return whole


def _untie(whole: Any) -> None:
    """Say of embedding and head that they are two, where the adapter has trained one of them."""
    if whole.get_input_embeddings().weight is not whole.get_output_embeddings().weight:
        for config in (whole.config, whole.config.get_text_config()):
            config.tie_word_embeddings = False


def _plain_names(wrapped: nn.Module) -> set[str]:
    """Returns the names of the base's own tensors, which a file may have as well."""
    return {f"base_model.model.{name}" for name in wrapped.get_base_model().state_dict()}  # type: ignore[operator]


def _logits(model: Any, sized: Any) -> Tensor:
    """fp32, of some tokens."""
    rows = sized.get_input_embeddings().weight.shape[0]
    ids = (torch.arange(_TOKENS, device=sized.device) * 7919 % rows)[None]
    return model(input_ids=ids, use_cache=False).logits.float()  # type: ignore[no-any-return]
