"""The models that are measured, as folders that every side loads alike: embedded, or random in a given shape."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

from swarm.policy.embedded import embedded_path

TOKENIZER = "tiny-qwen2"
"""Random models borrow its tokenizer; ids beyond it decode to nothing."""


@dataclass(frozen=True)
class Shape:
    """A Qwen2 with tied embeddings."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    vocabulary: int

    def config(self, context: int = 4096) -> Qwen2Config:
        """Its transformers configuration."""
        return Qwen2Config(
            vocab_size=self.vocabulary,
            hidden_size=self.hidden,
            intermediate_size=self.intermediate,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.kv_heads,
            max_position_embeddings=context,
            tie_word_embeddings=True,
            attention_dropout=0.0,
            bos_token_id=None,
        )


SHAPES = {
    "random-2m": Shape(128, 4, 4, 2, 384, 8192),
    "random-28m": Shape(512, 8, 8, 2, 1536, 8192),
    "random-0.5b": Shape(896, 24, 14, 2, 4864, 151_936),  # that of Qwen2.5-0.5B
}
FULL_ROUND_MODELS = ("tiny-qwen2", "random-28m")


def model_folder(name: str, scratch: Path, *, mean_length: int | None = None) -> Path:
    """Where `name` lies; a random one is written below `scratch` first.

    Args:
        mean_length: so many tokens long is a completion of a random model on average, if nothing cuts it: 1 of
            mean_length ids ends it, all being about equally likely. None: nothing ends it.
    """
    return random_model(SHAPES[name], scratch / name, mean_length) if name in SHAPES else embedded_path(name)


def random_model(shape: Shape, folder: Path, mean_length: int | None = None) -> Path:
    """Write a random model of a shape, always the same one, with a tokenizer that fits into its vocabulary."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(embedded_path(TOKENIZER))
    config = shape.config()
    config.eos_token_id, config.pad_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id
    module: Any = Qwen2ForCausalLM(config)
    generation = module.generation_config
    last = range(shape.vocabulary - shape.vocabulary // mean_length, shape.vocabulary) if mean_length else ()
    generation.eos_token_id = [tokenizer.eos_token_id, *last]
    generation.pad_token_id = tokenizer.pad_token_id
    module.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def parameters(module: Any) -> int:
    """Weights, tied ones counted once."""
    return sum(parameter.numel() for parameter in module.parameters())
