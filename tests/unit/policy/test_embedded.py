"""The shipped models are ordinary Hugging Face folders that start low and have room to climb."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from swarm.errors import ModelError
from swarm.policy.embedded import EMBEDDED, embedded_path
from tests.patience import PATIENCE

DIFFERENT = ("tiny-2-qwen2", "tiny-2-gpt2")
FIVE_MEGABYTES = 5 * 2**20
FILES = {
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "README.md",
}


@pytest.mark.parametrize("name", EMBEDDED)
def test_a_model_is_a_complete_small_folder(name: str) -> None:
    path = embedded_path(name)
    assert {file.name for file in path.iterdir()} >= FILES
    assert sum(file.stat().st_size for file in path.iterdir()) <= FIVE_MEGABYTES


@pytest.mark.parametrize("name", EMBEDDED)
def test_a_model_names_its_end_of_text_its_padding_and_a_short_longest_answer(name: str) -> None:
    model = AutoModelForCausalLM.from_pretrained(embedded_path(name))
    tokenizer = AutoTokenizer.from_pretrained(embedded_path(name))
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert model.generation_config.pad_token_id == tokenizer.pad_token_id != tokenizer.eos_token_id
    assert model.generation_config.max_new_tokens <= 64
    assert model.dtype == torch.float32


@pytest.mark.parametrize("name", EMBEDDED)
def test_the_chat_template_ignores_system_messages(name: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(embedded_path(name))
    user = {"role": "user", "content": "Calculate 1 + 2.\n"}
    shown = tokenizer.apply_chat_template(
        [{"role": "system", "content": "Be brief."}, user], tokenize=False, add_generation_prompt=True
    )
    assert shown == "<|user|>Calculate 1 + 2.\n<|assistant|>"


def test_two_models_differ_in_architecture_and_in_how_they_spell_an_answer() -> None:
    first, second = (AutoTokenizer.from_pretrained(embedded_path(name)) for name in DIFFERENT)
    kinds = {AutoModelForCausalLM.from_pretrained(embedded_path(name)).config.model_type for name in DIFFERENT}
    assert kinds == {"qwen2", "gpt2"}
    answer = "<answer>0 1 0</answer>"
    assert first.tokenize(answer) != second.tokenize(answer)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ModelError, match="tiny-2-qwen2, tiny-2-gpt2"):
        embedded_path("tiny-llama")


def test_looking_for_a_model_loads_no_torch() -> None:
    code = "import sys, swarm.policy.embedded as e; e.embedded_path('tiny-qwen2'); print('torch' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert shown.stdout.strip() == "False"
