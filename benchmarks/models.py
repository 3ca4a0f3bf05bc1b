"""The models that are measured, as folders that every side loads alike: embedded, or random in a given shape."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    LlamaConfig,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
)

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
    "random-5m": Shape(256, 6, 4, 2, 768, 8192),
    "random-28m": Shape(512, 8, 8, 2, 1536, 8192),
    "random-67m": Shape(896, 4, 14, 2, 4864, 8192),
    "random-100m": Shape(640, 18, 10, 2, 2048, 16_384),
    "random-0.5b": Shape(896, 24, 14, 2, 4864, 151_936),  # that of Qwen2.5-0.5B
}
OTHERS = {
    "random-gpt2": GPT2Config(),  # that of GPT-2, 124 M parameters
    "random-smollm-360m": LlamaConfig(  # that of SmolLM-360M
        vocab_size=49_152,
        hidden_size=960,
        intermediate_size=2560,
        num_hidden_layers=32,
        num_attention_heads=15,
        num_key_value_heads=5,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
    ),
}
"""Shapes of other architectures, embeddings tied."""
FULL_ROUND_MODELS = ("tiny-qwen2", "random-28m")


def model_folder(name: str, scratch: Path, *, mean_length: int | None = None, answering: bool = False) -> Path:
    """Where `name` lies; a random one is written below `scratch` first.

    Args:
        mean_length: so many tokens long is a completion of a random model on average, if nothing cuts it: 1 of
            mean_length ids ends it, all being about equally likely. None: nothing ends it.
        answering: a random model's tokenizer is answering_tokenizer.
    """
    config = SHAPES[name].config() if name in SHAPES else copy.deepcopy(OTHERS.get(name))
    if config is None:
        return embedded_path(name)
    tokenizer = answering_tokenizer(config.vocab_size) if answering else None
    return random_model(config, scratch / name, mean_length, tokenizer)


def answering_tokenizer(size: int) -> Any:
    """Of so many words, every other of which is a closed answer: what a random model writes earns something."""
    words = ["<unk>", "<eos>", *(str(digit) for digit in range(10))]
    words += [f"<answer>{n}</answer>" if n % 2 else f"word{n}" for n in range(len(words), size)]
    tokenizer = Tokenizer(WordLevel({word: n for n, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Split(Regex(r"\s+"), "removed")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<eos>", unk_token="<unk>", padding_side="left"
    )


def random_model(config: PreTrainedConfig, folder: Path, mean_length: int | None = None, tokenizer: Any = None) -> Path:
    """Write a random model of a shape, always the same one, with a tokenizer that fits into its vocabulary."""
    torch.manual_seed(0)
    tokenizer = tokenizer or AutoTokenizer.from_pretrained(embedded_path(TOKENIZER))
    config.bos_token_id, config.eos_token_id = None, tokenizer.eos_token_id
    config.pad_token_id = tokenizer.pad_token_id
    module: Any = AutoModelForCausalLM.from_config(config)
    generation = module.generation_config
    size: int = config.vocab_size
    last = range(size - size // mean_length, size) if mean_length else ()
    generation.eos_token_id = [tokenizer.eos_token_id, *last]
    generation.pad_token_id = tokenizer.pad_token_id
    module.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def parameters(module: Any) -> int:
    """Weights, tied ones counted once."""
    return sum(parameter.numel() for parameter in module.parameters())
