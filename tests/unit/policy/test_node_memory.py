"""One node's memory is counted: what autograd keeps is what the count says."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from swarm.config import Settings
from swarm.policy import linear_logprobs, node_memory, prompt_lengths, static_decode
from swarm.policy.batch import Row, stack_rows
from swarm.policy.device_memory import DeviceMemory
from swarm.policy.forward import completion_logprobs
from swarm.policy.model import LanguageModel
from swarm.policy.node_memory import (
    MicroBatch,
    activation_bytes,
    cache_bytes,
    kept_bytes,
    lengths,
    worst_micro_batch,
)
from swarm.policy.shape import ModelShape, shape_from
from swarm.tasks.gym.profiles import PROFILES
from tests.unit.policy.factories import make_model

CPU = DeviceMemory(device="cpu", free=2**34, total=2**34, host_free=2**34)
GPU = DeviceMemory(device="cuda:0", free=2**34, total=2**34, host_free=2**34, bf16=True)


def shape_of(model: LanguageModel) -> ModelShape:
    tensors = {name: tuple(p.shape) for name, p in model.module.named_parameters()}
    return shape_from(model.name, model.module.config.to_dict(), {}, tensors)


def kept_by_autograd(model: LanguageModel, batch: MicroBatch) -> int:
    """Bytes of the distinct tensors, parameters apart, that a backward pass through this micro-batch would need."""
    groups = batch.prompts or 2
    rows = [
        Row(index % groups, (5,) * (batch.prompt_tokens - index % groups), (7,) * batch.new_tokens, 1.0, True, None)
        for index in range(batch.rows)
    ]
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.module.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        address = tensor.untyped_storage().data_ptr()
        if address not in weights:
            kept[address] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        completion_logprobs(model, stack_rows(rows, model), temperature=1.0, share_prompts=batch.prompts > 0)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


@pytest.mark.parametrize(
    ("architecture", "bf16"),
    # not GPT-2's tanh GELU under autocast: its power is fp32 on a GPU alone
    [("qwen2", False), ("llama", False), ("gpt2", False), ("qwen2", True), ("llama", True)],
)
@pytest.mark.parametrize("prompts", [3, 0])
def test_what_autograd_keeps_is_what_was_counted(architecture: str, prompts: int, bf16: bool) -> None:
    model = replace(make_model(architecture), autocast_dtype=torch.bfloat16 if bf16 else None)
    shape = shape_of(model)
    batch = MicroBatch(prompts=prompts, rows=6, prompt_tokens=80, new_tokens=40)
    counted = kept_bytes(shape, batch, bf16=bf16, eager=False, checkpointing=False)
    probabilities = 4 * batch.rows * batch.new_tokens * shape.vocabulary
    assert counted + probabilities == pytest.approx(kept_by_autograd(model, batch), rel=0.03)


def test_checkpointing_keeps_one_input_per_layer_and_one_whole_layer() -> None:
    shape = replace(shape_of(make_model()), layers=100)
    batch = MicroBatch(prompts=0, rows=6, prompt_tokens=40, new_tokens=20)

    def growth_per_layer(checkpointing: bool) -> int:
        form = {"bf16": False, "eager": False, "checkpointing": checkpointing}
        return activation_bytes(replace(shape, layers=101), batch, **form) - activation_bytes(shape, batch, **form)

    assert growth_per_layer(True) == 4 * shape.hidden * batch.positions
    assert growth_per_layer(False) > 10 * growth_per_layer(True)


def test_eager_attention_holds_scores_and_bf16_holds_less() -> None:
    shape, batch = shape_of(make_model()), MicroBatch(prompts=0, rows=6, prompt_tokens=400, new_tokens=20)
    plain = activation_bytes(shape, batch, bf16=False, eager=False, checkpointing=False)
    eager = activation_bytes(shape, batch, bf16=False, eager=True, checkpointing=False)
    scores = shape.layers * batch.rows * 420**2 * 4 * shape.heads
    assert scores / 2 < eager - plain < scores
    assert activation_bytes(shape, batch, bf16=True, eager=False, checkpointing=False) < plain


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("limit", [64, 1000, 4096, 16384])
def test_the_worst_micro_batch_fills_its_positions_and_no_more(limit: int, share: bool) -> None:
    shape, settings = shape_of(make_model()), Settings(local_groups=500, max_new_tokens=20)
    batch = worst_micro_batch(shape, settings, limit, share_prompts=share)
    row = sum(lengths(shape, settings))
    assert batch.positions <= max(limit, row) < batch.positions + 2 * row or batch.rows == 1


def test_a_micro_batch_is_never_larger_than_the_round() -> None:
    shape, settings = shape_of(make_model()), Settings(local_groups=2, external_groups=1, generations=4)
    for share in (True, False):
        assert worst_micro_batch(shape, settings, 10**9, share_prompts=share).rows == 12


def test_prompt_and_completion_never_exceed_the_context() -> None:
    shape = replace(shape_of(make_model()), context=100)
    assert sum(lengths(shape, Settings(profile="paper", max_new_tokens=90))) == 100
    assert sum(lengths(shape, Settings(profile="paper", max_new_tokens=900))) == 100


def test_every_task_has_a_measured_length_and_the_longest_chosen_counts() -> None:
    for profile, tasks in PROFILES.items():
        assert prompt_lengths._LONGEST[profile].keys() == tasks.keys()
    assert prompt_lengths.longest_prompt("tiny-qwen2", "tiny", ("base_conversion", "arc_1d")) == 41
    assert prompt_lengths.longest_prompt("someone/model", "paper", None) == 523 + prompt_lengths.FRAME_TOKENS
    assert prompt_lengths.longest_prompt("tiny-qwen2-rare", "tiny", None) == 59, "the tokenizer of tiny-qwen2"


def test_a_reference_and_a_bf16_copy_are_held_where_they_are_needed() -> None:
    shape = shape_of(make_model())

    def memory(device: DeviceMemory, **settings: float) -> node_memory.NodeMemory:
        return node_memory.node_memory(
            shape, Settings(**settings), device, micro_batch_tokens=4096, checkpointing=False
        )

    assert (memory(CPU).weights, memory(GPU).weights) == (4 * shape.parameters, 6 * shape.parameters)
    assert memory(CPU).optimizer == 8 * shape.parameters
    assert (memory(CPU).reference, memory(CPU, kl_weight=0.1).reference) == (0, 4 * shape.parameters)


def test_the_cache_grows_with_rows_and_length() -> None:
    shape = shape_of(make_model())

    def cache(groups: int = 2, **settings: int) -> int:
        return cache_bytes(shape, Settings(local_groups=groups, **settings), bf16=False, static=False)

    assert cache(max_new_tokens=200) > cache(max_new_tokens=20)
    assert cache(groups=4) == 2 * cache(groups=2)


def test_a_static_cache_is_rounded_up_and_stays() -> None:
    for number in range(1, 3000):
        assert node_memory.row_bucket(number) == static_decode.row_bucket(number)
        assert node_memory.column_bucket(number) == static_decode.column_bucket(number)
    memory = node_memory.node_memory(
        shape_of(make_model()), Settings(), GPU, micro_batch_tokens=4096, checkpointing=False
    )
    assert memory.generation == node_memory.sampler_bytes(shape_of(make_model()), Settings())
    assert memory.resident > memory.buffers > 0


def test_static_buffers_are_those_that_decoding_allocates() -> None:
    model = make_model()
    settings = Settings(local_groups=3, generations=2, max_new_tokens=40, decoding="static")
    shape = shape_of(model)
    memory = node_memory.node_memory(shape, settings, CPU, micro_batch_tokens=4096, checkpointing=False)
    decoding = static_decode.StaticDecoding(model, capture=None)
    with decoding.region():
        decoding.begin([[5] * lengths(shape, settings)[0]] * 3, group_size=2, steps=40)
    buffers = decoding._buffers
    assert buffers is not None
    assert memory.buffers == sum(tensor.nbytes for tensor in (*buffers.keys, *buffers.values, buffers.logits))


def test_the_logits_of_the_plan_are_those_of_the_loss() -> None:
    assert node_memory.MAX_LOGITS == linear_logprobs.MAX_LOGITS
    assert node_memory.MIN_LOGITS_WIDTH == linear_logprobs._MIN_WIDTH


def test_an_adaptive_node_is_planned_for_the_round_in_which_all_groups_are_its_own() -> None:
    shape = shape_of(make_model())
    adaptive, fixed = Settings(adaptive=True, local_groups=2, external_groups=6), Settings(local_groups=8)
    for planned in (
        lambda settings: cache_bytes(shape, settings, bf16=False, static=False),
        lambda settings: node_memory.sampler_bytes(shape, settings),
        lambda settings: node_memory.static_logits_bytes(shape, settings),
        lambda settings: worst_micro_batch(shape, settings, 2**20, share_prompts=True),
    ):
        assert planned(adaptive) == planned(fixed)
