"""One node's memory is counted, part by part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from swarm.config import Settings
from swarm.planner import node_memory
from swarm.planner.device_memory import DeviceMemory
from swarm.planner.footprint import Linear, Peak
from swarm.planner.node_memory import NodeMemory, SizedModel, Talk, cache_bytes, lengths, worst_micro_batch
from swarm.planner.shape import ModelShape, shape_from
from swarm.policy import static_decode
from swarm.policy.model import LanguageModel
from swarm.tasks.gym.profiles import PROFILES
from tests.unit.planner.factories import ADAPTED, FLAT, QWEN
from tests.unit.policy.factories import make_model

CPU = DeviceMemory(device="cpu", free=2**34, total=2**34, host_free=2**34)
GPU = DeviceMemory(device="cuda:0", free=2**34, total=2**34, host_free=2**34, bf16=True)


def shape_of(model: LanguageModel) -> ModelShape:
    tensors = {name: tuple(p.shape) for name, p in model.module.named_parameters()}
    return shape_from(model.name, model.module.config.to_dict(), {}, tensors)


def needed(model: SizedModel, settings: Settings, device: DeviceMemory = CPU, *, together: int = 1) -> NodeMemory:
    return node_memory.node_memory(
        model, settings, device, micro_batch_tokens=4096, checkpointing=False, together=together
    )


def rows_of(settings: Settings) -> int:
    return settings.most_local_groups * settings.generations


@pytest.mark.parametrize("limit", [64, 1000, 4096, 16384])
def test_the_worst_micro_batch_fills_its_positions_and_no_more(limit: int) -> None:
    shape, settings = shape_of(make_model()), Settings(local_groups=500, max_new_tokens=20)
    batch = worst_micro_batch(shape, settings, limit)
    row = sum(lengths(shape, settings))
    assert batch.positions <= max(limit, row) < batch.positions + 2 * row or batch.rows == 1


def test_prompt_and_completion_never_exceed_the_context() -> None:
    shape = replace(shape_of(make_model()), context=100)
    assert sum(lengths(shape, Settings(profile="paper", max_new_tokens=90))) == 100
    assert sum(lengths(shape, Settings(profile="paper", max_new_tokens=900))) == 100


def test_a_run_of_conversations_is_planned_with_all_their_turns_and_replies() -> None:
    shape, settings = replace(shape_of(make_model()), context=1000), Settings(profile="tiny", max_new_tokens=50)
    prompt, new = lengths(shape, settings)
    assert lengths(shape, settings, Talk(3, 20)) == (prompt, 3 * new + 2 * 20)
    assert sum(lengths(shape, settings, Talk(16, 400))) == 1000, "the context"
    batch = worst_micro_batch(shape, settings, 10**6, talk=Talk(3, 20))
    assert batch.new_tokens == 3 * new + 2 * 20
    one, all_turns = (cache_bytes(shape, settings, half=False, static=False, talk=t) for t in (Talk(), Talk(3, 20)))
    assert all_turns * (prompt + new) == one * (prompt + 3 * new + 2 * 20)


def test_every_task_has_a_measured_length_and_the_longest_chosen_counts() -> None:
    for profile, tasks in PROFILES.items():
        assert all(0 < node_memory.longest_prompt("tiny-qwen2", profile, (task,)) < 600 for task in tasks)
    assert node_memory.longest_prompt("tiny-qwen2", "tiny", ("base_conversion", "arc_1d")) == 41
    assert node_memory.longest_prompt("someone/model", "paper", None) == 523 + node_memory.FRAME_TOKENS
    assert node_memory.longest_prompt("tiny-qwen2-rare", "tiny", None) == 67, "the tokenizer of tiny-qwen2"


def test_a_reference_and_a_bf16_copy_are_held_where_they_are_needed() -> None:
    shape = shape_of(make_model())

    def memory(device: DeviceMemory, **settings: float) -> NodeMemory:
        return needed(SizedModel(shape, FLAT), Settings().with_values(settings), device)

    assert (memory(CPU).weights, memory(GPU).weights) == (4 * shape.parameters, 6 * shape.parameters)
    assert memory(CPU).optimizer == 8 * shape.parameters
    assert (memory(CPU).reference, memory(CPU, kl_weight=0.1).reference) == (0, 4 * shape.parameters)


def test_static_buffers_are_those_that_decoding_allocates() -> None:
    model = make_model()
    settings = Settings(local_groups=3, generations=2, max_new_tokens=40, decoding="static")
    shape = shape_of(model)
    memory = needed(SizedModel(shape, FLAT), settings)
    decoding = static_decode.StaticDecoding(model, capture=None)
    with decoding.region():
        decoding.begin([[5] * lengths(shape, settings)[0]] * 3, group_size=2, steps=40)
    buffers = decoding._buffers
    assert buffers is not None
    assert memory.buffers == sum(tensor.nbytes for tensor in (*buffers.keys, *buffers.values, buffers.logits))


def test_an_adaptive_node_is_planned_for_the_round_in_which_all_groups_are_its_own() -> None:
    shape = shape_of(make_model())
    adaptive, fixed = Settings(adaptive=True, local_groups=2, external_groups=6), Settings(local_groups=8)
    for planned in (
        lambda settings: cache_bytes(shape, settings, half=False, static=False),
        lambda settings: node_memory.sampler_bytes(shape, settings, rows_of(settings)),
        lambda settings: worst_micro_batch(shape, settings, 2**20),
    ):
        assert planned(adaptive) == planned(fixed)


def adapted(device: DeviceMemory, *, together: int = 1, **settings: Any) -> NodeMemory:
    return needed(ADAPTED, Settings().with_values({"adapter": "lora", **settings}), device, together=together)


def test_of_an_adapter_gradients_and_moments_are_small_and_the_base_is_held_as_it_is_computed_with() -> None:
    small, whole = ADAPTED.footprint.adapter, ADAPTED.shape.parameters
    on_cpu, on_gpu = adapted(CPU), adapted(GPU)
    assert (on_cpu.base, on_gpu.base) == (4 * whole, 2 * whole)
    assert adapted(replace(GPU, bf16=False)).base == 2 * whole, "fp16"
    assert adapted(GPU, precision="fp32").base == 4 * whole
    assert (on_cpu.gradients, on_cpu.optimizer, on_cpu.snapshot) == (4 * small, 8 * small, 12 * small)
    assert adapted(CPU, kl_weight=0.1).reference == 0, "the base itself"
    assert adapted(CPU, gradient_halves=True).gradients == 3 * 4 * small, "two copies beside it"
    assert needed(QWEN, Settings()).base == 0


def test_nodes_that_generate_together_hold_the_cache_of_all_their_rows() -> None:
    eight, as_many_groups = adapted(CPU, together=8, local_groups=2), adapted(CPU, local_groups=16)
    assert eight.generation == as_many_groups.generation
    assert eight.update <= as_many_groups.update, "one node at a time trains"
    on_gpu, as_many = adapted(GPU, together=8, local_groups=2), adapted(GPU, local_groups=16)
    assert (on_gpu.buffers, on_gpu.generation) == (as_many.buffers, as_many.generation)


def test_reading_long_prompts_may_be_the_highest_point_of_generation() -> None:
    reading = Peak(Linear(0, 10**6, 0, 0), Linear(0, 0, 0, 0))
    wide = QWEN._replace(footprint=structs.replace(QWEN.footprint, reading=reading))
    settings = Settings(local_groups=3)
    memory = needed(wide, settings)
    assert memory.generation == 10**6 * 3 * memory.prompt_tokens
