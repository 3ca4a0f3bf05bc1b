"""The activations of a micro-batch are what a traced update says, for any size and depth."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest

from swarm.config import Settings
from swarm.config.computing import AdapterTable
from swarm.errors import ModelError
from swarm.planner import footprint as module
from swarm.planner import trace as tracing
from swarm.planner.footprint import Footprint, MicroBatch, Way, footprint
from swarm.planner.shape import model_shape
from swarm.planner.trace import Traced, trace
from swarm.policy.settings import LoraConfig
from tests.unit.planner.factories import FLAT
from tests.unit.policy.embedded_models import OF_THE_CORE
from tests.unit.policy.factories import make_config, make_module

BATCH = MicroBatch(prompts=3, rows=6, prompt_tokens=80, new_tokens=40)


class WithData(nullcontext[None]):
    """In the place of torch's mode: tensors are what they are."""

    def from_tensor(self, tensor: Any) -> Any:
        return tensor


def highest(
    config: Any,
    *,
    layers: int,
    fake: bool = True,
    bf16: bool = False,
    lora: LoraConfig | None = None,
    recomputed: bool = False,
    batch: MicroBatch = BATCH,
) -> int:
    with nullcontext() if fake else mock.patch.object(tracing, "FakeTensorMode", WithData):
        traced = Traced(config, layers=layers, bf16=bf16, eager=False, lora=lora)
        if recomputed:
            traced.recompute()
        return max(traced.peaks(batch))


@pytest.mark.parametrize("lora", [None, LoraConfig()], ids=["whole", "adapter"])
@pytest.mark.parametrize(("architecture", "recomputed"), [("qwen2", False), ("gpt2", True)])
def test_tensors_without_data_take_what_real_ones_take(
    architecture: str, recomputed: bool, lora: LoraConfig | None
) -> None:
    config = make_config(architecture)
    without, real = (highest(config, layers=2, fake=fake, lora=lora, recomputed=recomputed) for fake in (True, False))
    assert without == pytest.approx(real, rel=0.05)


@pytest.mark.engine
def test_a_footprint_tells_the_peak_of_any_size_and_depth(tmp_path: Path) -> None:
    config = make_config("qwen2")
    config.save_pretrained(tmp_path)
    found = trace(str(tmp_path), bf16=True, eager=False)
    batch = MicroBatch(prompts=12, rows=96, prompt_tokens=59, new_tokens=24)
    kept, recomputed = (
        highest(config, layers=5, bf16=True, recomputed=recomputed, batch=batch) for recomputed in (False, True)
    )
    assert 0.9 * kept < found.kept.bytes(batch, 5) < 1.1 * kept
    assert 0.9 * recomputed < found.checkpointed.bytes(batch, 5) < 1.4 * recomputed


@pytest.mark.engine
def test_the_footprints_in_the_package_are_those_of_a_trace() -> None:
    shape = model_shape("tiny-2-gpt2")
    there, traced = footprint(shape, Settings(), bf16=False), trace("tiny-2-gpt2", bf16=False, eager=False)
    for batch, ways in ((BATCH, (there.kept, traced.kept)), (BATCH, (there.checkpointed, traced.checkpointed))):
        ours, fresh = (way.bytes(batch, shape.layers) for way in ways)
        assert ours == pytest.approx(fresh, rel=0.05)


def test_checkpointing_keeps_one_input_per_layer() -> None:
    shape = model_shape("tiny-qwen2")
    many = replace(BATCH, prompts=16, rows=256)
    found = footprint(shape, Settings(), bf16=False)

    def growth(way: Way, batch: MicroBatch) -> float:
        return (way.bytes(batch, 101) - way.bytes(batch, 100)) / batch.positions

    assert growth(found.checkpointed, replace(many, prompts=0)) == pytest.approx(4 * shape.hidden, rel=0.05)
    assert growth(found.kept, many) > 10 * 4 * shape.hidden


def test_a_model_of_ones_own_is_traced_once_for_each_adapter_and_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_module("llama").save_pretrained(tmp_path / "mine")
    shape, calls = model_shape(str(tmp_path / "mine")), []

    def traced(settings: Settings, *, bf16: bool) -> Footprint:
        calls.append((settings.model, settings.adapter.kind, settings.adapter.rank))
        return FLAT

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "trace_in_child", traced)
    for adapter in (AdapterTable(), AdapterTable(kind="lora"), AdapterTable(kind="lora", rank=4)) * 2:
        assert footprint(shape, Settings(adapter=adapter), bf16=False) == FLAT
    assert calls == [((shape.name,), *adapter) for adapter in (("none", 16), ("lora", 16), ("lora", 4))]
    for kept in (tmp_path / "cache/swarm/footprints").iterdir():
        kept.write_text("torn")
    assert footprint(shape, Settings(), bf16=False) == FLAT
    assert len(calls) == 4, "what cannot be read is traced again"


@pytest.mark.engine
def test_a_child_traces_and_says_why_it_cannot(tmp_path: Path) -> None:
    make_config("gpt2").save_pretrained(tmp_path)
    found = module.trace_in_child(Settings(model=(str(tmp_path),)), bf16=False)
    assert found.kept.bytes(BATCH, 2) > 0
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"its activations cannot be traced: .*model_type"):
        module.trace_in_child(Settings(model=(str(tmp_path),)), bf16=False)


def test_the_table_has_each_model_of_the_core_with_and_without_an_adapter() -> None:
    table = msgspec.json.decode(Path(module.__file__).parents[1].joinpath(module.TABLE).read_bytes())
    for name in OF_THE_CORE:
        for adapter in ("", " lora 16 all"):
            assert f"{model_shape(name).digest} fp32 sdpa{adapter}" in table


@pytest.mark.engine
def test_a_trace_counts_the_numbers_of_an_adapter_without_weights(tmp_path: Path) -> None:
    module = make_module("qwen2")
    module.config.save_pretrained(tmp_path)
    found = trace(str(tmp_path), bf16=False, eager=False, lora=LoraConfig(rank=3, targets=("q_proj", "down_proj")))
    layer = module.model.layers[0]
    sizes = (*layer.self_attn.q_proj.weight.shape, *layer.mlp.down_proj.weight.shape)
    assert found.adapter == 3 * sum(sizes) * len(module.model.layers)
    with pytest.raises(ModelError, match="no linear layer's name ends so"):
        trace(str(tmp_path), bf16=False, eager=False, lora=LoraConfig(targets=("nothing",)))
