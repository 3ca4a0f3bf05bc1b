"""What every embedded model keeps, whether it lies in the core or in a plugin."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import swarm
from swarm.policy.embedded import EMBEDDED, embedded_path

OF_THE_CORE = tuple(
    name for name in EMBEDDED if Path(swarm.__file__).parent.joinpath("assets", "models", name).is_dir()
)
FIVE_MEGABYTES = 5 * 2**20
FILES = {
    *("config.json", "generation_config.json", "model.safetensors", "tokenizer.json"),
    *("tokenizer_config.json", "README.md"),
}


def is_a_complete_small_folder(name: str) -> None:
    """Asserts that all of its files are there, and small."""
    path = embedded_path(name)
    assert {file.name for file in path.iterdir()} >= FILES
    assert sum(file.stat().st_size for file in path.iterdir()) <= FIVE_MEGABYTES


def names_its_end_of_text_its_padding_and_a_short_longest_answer(name: str) -> None:
    """Asserts that its configuration says how an answer ends."""
    model = AutoModelForCausalLM.from_pretrained(embedded_path(name))
    tokenizer = AutoTokenizer.from_pretrained(embedded_path(name))
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert model.generation_config.pad_token_id == tokenizer.pad_token_id != tokenizer.eos_token_id
    assert model.generation_config.max_new_tokens <= 64
    assert model.dtype == torch.float32


def ignores_system_messages(name: str) -> None:
    """Asserts that its chat template shows the user's text alone."""
    tokenizer = AutoTokenizer.from_pretrained(embedded_path(name))
    user = {"role": "user", "content": "Calculate 1 + 2.\n"}
    shown = tokenizer.apply_chat_template(
        [{"role": "system", "content": "Be brief."}, user], tokenize=False, add_generation_prompt=True
    )
    assert shown == "<|user|>Calculate 1 + 2.\n<|assistant|>"
