"""A compiled step writes what a growing cache does, for rows that come and go, beside adapters, and once recorded."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from structlog.testing import capture_logs

from swarm.policy.decode import choose_decoding
from swarm.policy.forward import DynamicDecoding
from swarm.policy.lora import AdaptedBase, Adapter, StackedAdapters
from swarm.policy.model import LanguageModel
from swarm.policy.settings import LoraConfig
from swarm.policy.static_decode import StaticDecoding
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
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 2
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
