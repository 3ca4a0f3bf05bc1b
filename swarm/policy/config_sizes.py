"""Holds the sizes that a config.json names against the header of the weights beside it. Nothing is allocated.

A model is built by its configuration before its weights are read. One that names other sizes than they have would be
built all the same, layer by layer, and be refused when the memory is gone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from swarm.harmless import quoted

_SIDES = (
    *("vocab_size", "hidden_size", "n_embd", "d_model", "intermediate_size", "n_inner", "ffn_dim", "d_ff"),
    *("num_attention_heads", "n_head", "num_key_value_heads", "head_dim", "num_experts", "num_local_experts"),
)
"""What some matrix has as a side, or as a part of one."""
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers")
"""Each of them has a matrix at least."""
_LENGTHS = ("max_position_embeddings", "n_positions", "n_ctx", "sliding_window")
"""Lengths: of some architectures a matrix has so many rows; of most they are numbers alone."""
_LONGEST = 2**31


def sizes_problem(config: Mapping[str, Any], shapes: Iterable[tuple[int, ...]]) -> str:
    """Returns which size a configuration names that these tensors do not have; empty if there is none.

    Args:
        config: of a model of text, or of several kinds, with that of its text under `text_config`.
        shapes: of all tensors of the weights.
    """
    text = config.get("text_config", config)
    if not isinstance(text, dict):
        return f"text_config: expected an object, got {quoted(text)}"
    known = [shape for shape in shapes if all(shape)]  # one without numbers may have any other side
    largest = max((side for shape in known for side in shape), default=0)
    for names, most in ((_SIDES, largest), (_LAYERS, len(known)), (_LENGTHS, _LONGEST)):
        for name in names:
            value = text.get(name)
            if value is not None and not (type(value) is int and 0 <= value <= most):
                return f"{name}: expected a whole number of at most {most}, got {quoted(value)}"
    return ""


def parameters(shapes: Iterable[tuple[int, ...]]) -> int:
    """Counts the numbers in so many tensors."""
    return sum(math.prod(shape) for shape in shapes)
