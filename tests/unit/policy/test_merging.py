"""An adapter's whole model: what transformers loads gives the logits of adapter and base."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from swarm.errors import ModelError
from swarm.policy.model import load_model
from swarm.policy.settings import LoraConfig
from swarm.policy.shared_base import SharedBases
from swarm.policy.snapshot import write_merged
from tests.unit.policy.factories import make_config, make_tokenizer
from tests.unit.policy.test_lora import LORA, close, logits_of, policy_of, trained_model

IDS = torch.tensor([[5, 9, 11, 40, 7, 3]])


def saved_adapter(model: str, folder: Path, config: LoraConfig = LORA) -> tuple[Path, torch.Tensor]:
    """A checkpoint's model folder, and the logits of base and adapter."""
    folder.mkdir()
    shared, _ = SharedBases().join(model, config, device="cpu")
    trained = trained_model(shared, 4, config)
    policy_of(shared, trained).snapshot().write(str(folder))
    return folder / "model", logits_of(trained, IDS)


def loaded(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32).eval()


def base_folder(folder: Path, architecture: str, *, tied: bool) -> str:
    torch.manual_seed(3)
    config = make_config(architecture)
    config.tie_word_embeddings = tied
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize(("architecture", "tied"), [("qwen2", True), ("llama", False), ("gpt2", True)])
def test_a_merged_model_has_the_logits_of_adapter_and_base_and_a_tie_where_there_was_one(
    architecture: str, tied: bool, tmp_path: Path
) -> None:
    base = base_folder(tmp_path / "base", architecture, tied=tied)
    adapter, expected = saved_adapter(base, tmp_path / "saved")
    (tmp_path / "merged").mkdir()
    files = write_merged(adapter, tmp_path / "merged")
    assert files == len(list((tmp_path / "merged").iterdir()))
    whole, before = loaded(tmp_path / "merged"), loaded(tmp_path / "base")
    with torch.no_grad():
        assert close(whole(IDS).logits, expected)
        assert not close(before(IDS).logits, expected), "the adapter changes something"
    assert (whole.get_output_embeddings().weight is whole.get_input_embeddings().weight) == tied
    head, head_before = (model.get_output_embeddings().weight for model in (whole, before))
    assert torch.equal(head, head_before), "the head is not adapted"
    written = load_file(tmp_path / "merged" / "model.safetensors")
    assert len(written) == len(load_file(tmp_path / "base" / "model.safetensors"))
    assert not any("lora" in name for name in written)


def test_an_adapter_of_some_layers_beside_a_merged_one_is_merged_on_top(tmp_path: Path) -> None:
    first, _ = saved_adapter("tiny-2-qwen2", tmp_path / "first")
    second, expected = saved_adapter(str(first), tmp_path / "second", LoraConfig(2, 4, ("q_proj", "down_proj")))
    with pytest.raises(ModelError, match="is an adapter, too"):
        load_model(str(second), device="cpu")
    (tmp_path / "base").mkdir()
    write_merged(first, tmp_path / "base")
    second, expected = saved_adapter(str(tmp_path / "base"), tmp_path / "third", LoraConfig(2, 4, ("q_proj",)))
    (tmp_path / "merged").mkdir()
    write_merged(second, tmp_path / "merged")
    with torch.no_grad():
        assert close(loaded(tmp_path / "merged")(IDS).logits, expected)
