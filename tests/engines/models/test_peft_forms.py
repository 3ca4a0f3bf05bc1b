"""Adapters that PEFT saved, as `--model`: loaded is what PEFT computes, or they are refused by the key that asks."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from transformers import AutoModelForCausalLM

from swarm.errors import ModelError
from swarm.policy.model import load_model
from swarm.policy.snapshot import write_merged
from tests.patience import part_a_day
from tests.unit.policy.factories import make_config, make_tokenizer

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore"),  # of PEFT, of what transformers renames
]
IDS = torch.tensor([[5, 9, 11, 40, 7, 3, 250, 17]])
PLAIN = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"]}
LORA: dict[str, dict[str, Any]] = {
    "plain": {},
    "all linear layers": {"target_modules": "all-linear"},
    "rslora": {"use_rslora": True},
    "a regular expression": {"target_modules": r".*\.0\..*(q|v)_proj"},
    "layers": {"layers_to_transform": [1]},
    "layers by a pattern": {"layers_to_transform": [1], "layers_pattern": "layers"},
    "excluded": {"target_modules": "all-linear", "exclude_modules": ["down_proj"]},
    "ranks by layer": {"rank_pattern": {"q_proj": 2}},
    "alphas by layer": {"alpha_pattern": {"v_proj": 32}},
    "biases": {"bias": "all"},
    "biases of its layers": {"bias": "lora_only"},
    "own biases": {"lora_bias": True},
    "dora": {"use_dora": True},
    "the head": {"target_modules": ["q_proj", "lm_head"]},
    "the embedding": {"target_modules": ["q_proj", "embed_tokens"]},
    "a trained head": {"modules_to_save": ["lm_head"]},
    "a trained embedding": {"modules_to_save": ["embed_tokens"]},
    "a trained norm": {"modules_to_save": ["norm"]},
    "trained tokens": {"trainable_token_indices": [5, 9]},
    "olora": {"init_lora_weights": "olora"},
    "pissa": {"init_lora_weights": "pissa"},
    "orthogonal": {"init_lora_weights": "orthogonal"},
    "layers twice": {"layer_replication": [[0, 2], [1, 2]]},
    "after a turn's beginning": {"alora_invocation_tokens": [5, 9]},
    "qalora": {"use_qalora": True, "qalora_group_size": 8},
}


def base_model(architecture: str = "qwen2", *, tied: bool = False) -> Any:
    torch.manual_seed(3)
    config = make_config(architecture)
    config.tie_word_embeddings = tied
    return AutoModelForCausalLM.from_config(config).eval()


def saved(folder: Path, config: Any, *, tied: bool = False) -> tuple[str, torch.Tensor]:
    """An adapter of random numbers beside its base, and what PEFT makes of both when it loads them."""
    base = folder / "base"
    base_model(tied=tied).save_pretrained(base)
    make_tokenizer().save_pretrained(base)
    config.base_model_name_or_path = str(base)
    trained = peft.get_peft_model(AutoModelForCausalLM.from_pretrained(base), config)
    torch.manual_seed(4)
    with torch.no_grad():
        for weight in (one for one in trained.parameters() if one.requires_grad):
            weight.add_(0.2 * torch.randn_like(weight))
    trained.save_pretrained(folder / "adapter")
    return str(folder / "adapter"), theirs(folder / "adapter")


def theirs(adapter: Path) -> torch.Tensor:
    base = AutoModelForCausalLM.from_pretrained(adapter.parent / "base").eval()
    with torch.no_grad():
        logits: torch.Tensor = peft.PeftModel.from_pretrained(base, str(adapter)).eval()(input_ids=IDS).logits
    return logits


def ours(adapter: str) -> torch.Tensor:
    model = load_model(adapter, device="cpu")
    with torch.no_grad():
        logits: torch.Tensor = model.module(input_ids=IDS).logits
    return logits


def equal_or_refused(adapter: str, expected: torch.Tensor) -> str:
    """Why it was refused; empty where it is equal."""
    try:
        got = ours(adapter)
    except ModelError as error:
        return str(error)
    assert torch.allclose(got, expected, atol=2e-5, rtol=1e-5), (got - expected).abs().max()
    return ""


TIED = ("all linear layers", "the head", "the embedding", "a trained head", "a trained embedding", "trained tokens")
"""Forms to which it matters whether head and embedding are one."""


ALL = [*((form, False) for form in LORA), *((form, True) for form in TIED)]


@pytest.mark.parametrize("form_and_head", part_a_day(ALL, 3), ids=str)
def test_every_form_of_lora_is_what_peft_makes_of_it_or_is_refused_by_its_key(
    form_and_head: tuple[str, bool], tmp_path: Path
) -> None:
    form, tied = form_and_head
    try:
        config: Any = peft.LoraConfig
        adapter, expected = saved(tmp_path, config(**(PLAIN | LORA[form])), tied=tied)
    except (ValueError, TypeError, NotImplementedError, RuntimeError, IndexError) as error:
        pytest.skip(f"PEFT does not make it: {error}")
    refused = equal_or_refused(adapter, expected)
    if not refused:
        (tmp_path / "merged").mkdir()
        write_merged(Path(adapter), tmp_path / "merged")
        assert equal_or_refused(str(tmp_path / "merged"), expected) == ""
    if refused:
        assert any(key in refused for key in LORA[form]), refused


OTHERS = sorted(kind for kind in peft.PEFT_TYPE_TO_CONFIG_MAPPING if kind.value != "LORA")
SIZES: dict[str, Any] = {
    "target_modules": ["q_proj", "v_proj"],
    "feedforward_modules": [],
    "num_virtual_tokens": 3,
    "task_type": "CAUSAL_LM",
    "r": 4,
}
SIZES_OF: dict[str, dict[str, Any]] = {
    "ADALORA": {"total_step": 10, "init_r": 4},
    "C3A": {"block_size": 16},
    "FOURIERFT": {"n_frequency": 50},
    "OFT": {"r": 0, "oft_block_size": 4},
    "ROAD": {"group_size": 8},
    "TRAINABLE_TOKENS": {"token_indices": [5, 9]},
    "VBLORA": {"vector_length": 16, "num_vectors": 90},
    "WAVEFT": {"n_frequency": 50},
}
"""Where those do not suit the model."""


@pytest.mark.parametrize("kind", part_a_day(OTHERS, 3), ids=lambda kind: kind.value)
def test_every_other_kind_is_what_peft_makes_of_it_or_is_refused_by_its_name(kind: Any, tmp_path: Path) -> None:
    form = peft.PEFT_TYPE_TO_CONFIG_MAPPING[kind]
    asked = SIZES | SIZES_OF.get(kind.value, {})
    fields = {field.name for field in dataclasses.fields(form)}
    sizes = {key: value for key, value in asked.items() if key in fields}
    try:
        adapter, expected = saved(tmp_path, form(**sizes))
    except Exception as error:  # noqa: BLE001 - of forty kinds each wants something else of a model
        pytest.skip(f"PEFT does not make it: {type(error).__name__}: {error}"[:200])
    refused = equal_or_refused(adapter, expected)
    if refused:
        assert kind.value in refused
