"""Frozen weights in 8 or 4 bits, by bitsandbytes: those of linear layers alone; embeddings, norms and head stay.

    4  NF4 in blocks of 64, their scales quantised once more (QLoRA, arXiv:2305.14314); products in what is computed in
    8  LLM.int8 (arXiv:2208.07339): activations are quantised, too, their outliers found over all rows of a product

bits ─▶ loading_options ─▶ AutoModelForCausalLM.from_pretrained ─▶ made_trainable

On a CPU it is computed by slow paths: of use for tests.
"""

from __future__ import annotations

import logging
from typing import Any

from transformers import BitsAndBytesConfig


def loading_options(bits: int, device: Any, dtype: Any) -> dict[str, Any]:
    """Returns the options of from_pretrained.

    Args:
        device: torch's, where the weights go at once.
        dtype: torch's, of all that is not quantised, and of products.
    """
    if bits == 8:
        config = BitsAndBytesConfig(load_in_8bit=True)
    else:
        config = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=dtype,
        )
    return {"quantization_config": config, "device_map": {"": device}}


def is_quantised(module: Any) -> bool:
    """Tells whether a transformers model was loaded so."""
    return bool(getattr(module, "is_quantized", False))


def made_trainable(module: Any) -> None:
    """See that gradients pass through the frozen layers of a model that was loaded so."""
    logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)  # a line for every product in 8 bits
    for layer in module.modules():
        if hasattr(layer, "support_avx512bf16_for_cpu"):
            layer.support_avx512bf16_for_cpu = False  # it repacks weights in the first pass without gradients, for good
