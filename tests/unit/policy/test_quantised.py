"""A frozen base in 8 or 4 bits, by the real bitsandbytes on a CPU; nothing of it was run on a GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from swarm.errors import CheckpointError, ModelError
from swarm.policy import settings
from swarm.policy.generator import ModelGenerator
from swarm.policy.model import LanguageModel, load_model
from swarm.policy.settings import LoraConfig
from swarm.policy.shared_base import SharedBase, SharedBases
from swarm.types import GenerationCall
from tests.unit.policy.test_lora import PROMPTS, close, gradient_of, logits_of, policy_of, trained_model

FOUR, EIGHT, WHOLE = (LoraConfig(rank=4, alpha=16, base_bits=bits) for bits in (4, 8, None))
IDS = torch.tensor([[5, 9, 11, 40, 7, 3]])


def based(config: LoraConfig, model: str = "tiny-2-qwen2") -> tuple[SharedBase, LanguageModel]:
    shared, _ = SharedBases().join(model, config, device="cpu")
    return shared, trained_model(shared, 3, config)


def gap(ours: torch.Tensor, exact: torch.Tensor) -> float:
    return ((ours - exact).norm() / exact.norm()).item()


@pytest.mark.parametrize("model", ["tiny-2-qwen2", "tiny-2-gpt2"])
@pytest.mark.parametrize(("config", "coarse"), [(EIGHT, 0.02), (FOUR, 0.1)])
def test_logits_and_gradients_are_near_those_beside_the_whole_base(
    config: LoraConfig, coarse: float, model: str
) -> None:
    (_, exact), (shared, ours) = based(WHOLE, model), based(config, model)
    held = sum(parameter.numel() * parameter.element_size() for parameter in ours.module.parameters())
    whole = sum(parameter.numel() * parameter.element_size() for parameter in exact.module.parameters())
    assert held < 0.4 * whole
    assert 0 < gap(logits_of(ours, IDS), logits_of(exact, IDS)) < coarse
    expected, found = gradient_of(policy_of(based(WHOLE, model)[0], exact)), gradient_of(policy_of(shared, ours))
    alike = [torch.cosine_similarity(found[name].flatten(), expected[name].flatten(), dim=0) for name in found]
    assert min(alike) > 1 - 2 * coarse


def test_beside_four_bits_what_a_node_writes_does_not_depend_on_who_is_in_its_batch() -> None:
    shared, first = based(FOUR)
    generators = [policy_of(shared, model).generator for model in (first, trained_model(shared, 4, FOUR))]
    calls = [GenerationCall(PROMPTS[:count], 3, 10 + count) for count in (2, 3)]
    together = ModelGenerator.generate_together(list(zip(generators, calls, strict=True)))
    for generator, call, groups in zip(generators, calls, together, strict=True):
        alone = generator.generate(call.prompts, group_size=call.group_size, seed=call.seed)
        for ours, theirs in zip(sum(groups, ()), sum(alone, ()), strict=True):
            assert ours.token_ids == theirs.token_ids
            assert close(torch.tensor(ours.logprobs), torch.tensor(theirs.logprobs))


@pytest.mark.parametrize("config", [EIGHT, FOUR])
def test_a_checkpoint_goes_on_beside_the_same_bits_and_no_others(config: LoraConfig, tmp_path: Path) -> None:
    policy_of(*based(config)).snapshot().write(str(tmp_path))
    again = policy_of(*based(config))
    again.restore(str(tmp_path))
    with pytest.raises(CheckpointError, match=rf"SWARM_ADAPTER_BASE_BITS={config.base_bits}"):
        policy_of(*based(WHOLE)).restore(str(tmp_path))


def test_an_adapter_is_not_merged_into_few_bits(tmp_path: Path) -> None:
    policy_of(*based(WHOLE)).snapshot().write(str(tmp_path))
    with pytest.raises(ModelError, match=r"cannot be merged into weights of 4 bits.*--merged"):
        load_model(str(tmp_path / "model"), device="cpu", frozen=True, bits=4)


def test_without_the_library_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"needs bitsandbytes and accelerate, not .*pip install .*bitsandbytes"):
        SharedBases().join("tiny-2-qwen2", replace(FOUR), device="cpu")
