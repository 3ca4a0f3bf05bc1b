"""The two architectures of the embedded models and their tokenizers, before any training.

Prompt tokens cost most on a CPU, and the tasks' questions are mostly boilerplate. So both tokenizers hold the answer
tags and the phrases that take most bytes as single added tokens. They tokenize everything else differently, so that the
models of a mixed swarm do not share a tokenizer. Digits are never merged, which keeps arithmetic easier.

    qwen2   Qwen2's pre-tokenizer with byte-pair merges, and a grid cell such as ` 0` is one token
    gpt2    the 256 bytes, no merges
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from tokenizers import AddedToken, pre_tokenizers, trainers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Tokenizer,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2Tokenizer,
)

from swarm.policy.embedded import CHAT_TEMPLATE

END, PAD, USER, ASSISTANT = "<|endoftext|>", "<|pad|>", "<|user|>", "<|assistant|>"
CONTEXT = 1024
"""Longest prompt and completion together, in tokens."""
WIDTH = 128
"""Hidden size of the embedded models."""
WIDTHS = (16, 1024, 8)
"""Narrowest, widest, and of what a width is a multiple: four heads of an even size."""
PHRASES = 96
LAYERS = 4
MERGES = 256
Architecture = Literal["qwen2", "gpt2"]
MAX_NEW_TOKENS: dict[Architecture, int] = {"qwen2": 24, "gpt2": 28}
"""Enough for the longest answer of the tiny profiles in its longest format."""

_BETWEEN_PHRASES = re.compile(r"[\d\n<>,∨∧→↔¬]|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day")
_SHORTEST_PHRASE = 8
_TAGS = ("<answer>", "</answer>")
_CELLS = tuple(f" {digit}" for digit in range(10))
_NEVER_MERGED = tuple("[]<>.")
"""All of a bf program but its runs of + and -, which are counts."""


def build_tokenizer(architecture: Architecture, texts: Sequence[str]) -> PreTrainedTokenizerFast:
    """The tokenizer of an embedded model, learned from the tasks' question texts."""
    phrases = _costly_phrases(texts)
    if architecture == "qwen2":
        whole = [*_TAGS, *_CELLS, *_NEVER_MERGED, *phrases]
        vocab, merges = _learn_merges(texts, whole)
        tokenizer = Qwen2Tokenizer(vocab=vocab, merges=merges, **_COMMON)
    else:
        whole = [*_TAGS, *phrases]
        tokenizer = GPT2Tokenizer(vocab=_byte_vocabulary(), merges=[], bos_token=END, unk_token=END, **_COMMON)
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in whole])
    return tokenizer


def build_model(
    architecture: Architecture, tokenizer: PreTrainedTokenizerFast, width: int = WIDTH, layers: int = LAYERS
) -> PreTrainedModel:
    """The untrained model, initialised from torch's global generator.

    Args:
        width: hidden size, one of those that WIDTHS allows.
    """
    if architecture == "qwen2":
        model: PreTrainedModel = Qwen2ForCausalLM(_qwen2_config(tokenizer, width, layers))
    else:
        model = GPT2LMHeadModel(_gpt2_config(tokenizer, width, layers))
    generation = model.generation_config
    generation.bos_token_id = None
    generation.eos_token_id, generation.pad_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id
    generation.max_new_tokens, generation.do_sample = MAX_NEW_TOKENS[architecture], True
    return model


_COMMON = {
    "eos_token": END,
    "pad_token": PAD,
    "extra_special_tokens": [USER, ASSISTANT],
    "chat_template": CHAT_TEMPLATE,
    "model_max_length": CONTEXT,
    "padding_side": "left",
    "clean_up_tokenization_spaces": False,
}


def _costly_phrases(texts: Iterable[str]) -> list[str]:
    """The phrases that would take most bytes over all texts."""
    counts = Counter(
        piece for text in texts for piece in _BETWEEN_PHRASES.split(text) if len(piece) >= _SHORTEST_PHRASE
    )
    return sorted(counts, key=lambda phrase: (-counts[phrase] * len(phrase), phrase))[:PHRASES]


def _byte_vocabulary() -> dict[str, int]:
    return {symbol: i for i, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}


def _learn_merges(texts: Iterable[str], whole: Sequence[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Vocabulary and merges of what lies between the whole tokens."""
    longest_first = sorted(whole, key=len, reverse=True)
    between = re.compile("|".join(map(re.escape, longest_first)))
    core = Qwen2Tokenizer(vocab=_byte_vocabulary(), merges=[]).backend_tokenizer
    trainer = trainers.BpeTrainer(
        vocab_size=256 + MERGES, initial_alphabet=list(_byte_vocabulary()), show_progress=False
    )
    core.train_from_iterator((piece for text in texts for piece in between.split(text)), trainer)
    learned = json.loads(core.to_str())["model"]
    return learned["vocab"], [tuple(pair) for pair in learned["merges"]]


def _qwen2_config(tokenizer: PreTrainedTokenizerFast, width: int, layers: int) -> Qwen2Config:
    return Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        attention_dropout=0.0,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )


def _gpt2_config(tokenizer: PreTrainedTokenizerFast, width: int, layers: int) -> GPT2Config:
    return GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=width,
        n_layer=layers,
        n_head=4,
        n_positions=CONTEXT,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
