"""What is compiled computes the same: a step of decoding, for rows that come and go and beside adapters; a training
pass, for micro-batches of any size.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from structlog.testing import capture_logs
from transformers import Gemma2Config

from swarm.policy.batch import encode_groups
from swarm.policy.decode import choose_decoding
from swarm.policy.device import Halvings
from swarm.policy.forward import DynamicDecoding
from swarm.policy.gradient import GradientSum
from swarm.policy.load_probe import tried_compiled
from swarm.policy.lora import AdaptedBase, Adapter, StackedAdapters
from swarm.policy.model import LanguageModel, wrap_model
from swarm.policy.settings import GrpoConfig, LoraConfig
from swarm.policy.static_decode import StaticDecoding
from swarm.types import TrainGroup
from tests.unit.policy.factories import (
    ARCHITECTURES,
    CPU,
    SHAPE,
    gradient_of,
    largest_gap,
    make_group,
    make_model,
    make_module,
    make_tokenizer,
)
from tests.unit.policy.test_decode import assert_same_samples, make_ending_model, write

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]  # of the compiler


@pytest.fixture(autouse=True)
def _compiled_anew() -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def compiled(model: LanguageModel) -> StaticDecoding:
    with capture_logs() as logs:
        decoding = choose_decoding(model, "compiled")
    assert isinstance(decoding, StaticDecoding), logs
    return decoding


def test_a_compiled_step_writes_what_a_growing_cache_does_also_after_an_update() -> None:
    model = make_ending_model()
    decoding = compiled(model)
    written = []
    for _ in range(2):
        expected = write(model, DynamicDecoding(model))
        assert_same_samples(write(model, decoding), expected)
        assert len({len(one.token_ids) for one in expected}) > 5  # so rows have moved up
        written.append([one.token_ids for one in expected])
        with torch.no_grad():
            for weights in model.module.parameters():
                weights.mul_(1.1)
    assert written[0] != written[1]
    assert (
        torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 2 + 2
    )  # a step and a drawing; of a part of the buffer, and of all of it
    assert not torch._dynamo.utils.counters["graph_break"]


def test_each_row_of_a_compiled_step_uses_its_own_adapter() -> None:
    alone = make_ending_model()
    base = AdaptedBase("base", alone.module, None)
    adapters = [Adapter(base, LoraConfig(rank=4), device=alone.device, seed=seed) for seed in (1, 2)]
    with torch.no_grad():
        for adapter in adapters:
            for matrix in adapter.up:
                matrix.normal_(std=0.1)
    stacked = replace(alone, base=base, adapter=StackedAdapters(adapters, None))
    prompts, steps = [[5, 6, 7], [9] * 40], 12
    owners = torch.tensor([0, 1])
    found = []
    for decoding in (compiled(stacked), DynamicDecoding(stacked)):
        with decoding.region():
            decoder = decoding.begin(prompts, group_size=2, steps=steps, owner_K=owners)
            for step in range(steps):
                decoder.forward(torch.full((4,), 7 + step))
            found.append(decoder.logits.clone())
    assert torch.allclose(*found, atol=1e-4)
    assert not torch.allclose(found[0][:2], found[0][2:], atol=1e-2)


def soft_capped() -> LanguageModel:
    """Layers of two kinds, windows, and caps of scores and logits."""
    config = Gemma2Config(**SHAPE, head_dim=8, sliding_window=24, final_logit_softcapping=3.0)
    return wrap_model("gemma2", make_module(config=config), make_tokenizer(), device=CPU, max_new_tokens=12)


def groups(count: int) -> list[TrainGroup]:
    """More and longer ones with each number."""
    texts = [("yes" * number, "no", "maybe " * number) for number in range(2, 2 + count)]
    return [make_group(f"What is {number} x {number}?" * (number + 1), one) for number, one in enumerate(texts)]


@pytest.mark.parametrize("packs", [True, False])
@pytest.mark.parametrize("architecture", [*ARCHITECTURES, "gemma2"])
def test_a_compiled_training_pass_has_the_gradient_of_the_plain_one(architecture: str, packs: bool) -> None:
    model = soft_capped() if architecture == "gemma2" else make_model(architecture)
    assert_same_gradients(replace(model, packs=packs))


def test_layers_that_are_recomputed_and_a_reference_beside_them_give_the_same_gradient() -> None:
    assert_same_gradients(make_model(), gradient_checkpointing=True, kl_weight=0.1, iterations=2)


def assert_same_gradients(model: LanguageModel, **options: float) -> None:
    with capture_logs() as logs:
        compiled = tried_compiled(model)
    assert compiled.compiled, logs
    for count in (1, 4):
        expected = gradient_of(model, groups(count), **options)
        assert largest_gap(gradient_of(compiled, groups(count), **options), expected) < 1e-4


def test_a_training_pass_is_compiled_once_for_micro_batches_of_all_sizes() -> None:
    model = tried_compiled(make_model("llama"))
    gradient_of(model, groups(2))
    compiled = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for count, tokens in ((1, 2**14), (3, 2**14), (6, 256), (6, 100)):
        gradient_of(model, groups(count), micro_batch_tokens=tokens)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == compiled <= 8


def test_beside_a_frozen_base_layers_are_compiled_once_for_all_adapters_each_of_which_has_its_gradient() -> None:
    alone = make_model("llama")
    base = AdaptedBase("base", alone.module, None)
    graphs = []
    for seed in (1, 2):
        adapter = Adapter(base, LoraConfig(rank=4), device=CPU, seed=seed)
        with torch.no_grad():
            for matrix in adapter.up:
                matrix.normal_(std=0.1)
        model = replace(alone, base=base, adapter=adapter)
        compiled = tried_compiled(model)
        assert compiled.compiled
        found = []
        for one in (model, compiled):
            begun = GradientSum(one, GrpoConfig(), Halvings())
            begun.clear()
            begun.add(encode_groups(groups(3), one, all_rows=False, use_claims=False, answers_only=False).rows)
            found.append({name: matrix.grad.clone() for name, matrix in adapter.parameters().items()})
        assert largest_gap(*found) < 1e-4
        graphs.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    assert 2 + 2 < graphs[0] == graphs[1]  # more than the loss
