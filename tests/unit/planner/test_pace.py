"""Seconds of a round come from a measured step, or from what devices can at best."""

from __future__ import annotations

from typing import Any

import pytest

from swarm.config import Settings
from swarm.planner.far_device import far_device
from swarm.planner.node_memory import SizedModel
from swarm.planner.pace import Pace, measured, predicted
from swarm.planner.plan import choose
from swarm.planner.probe import ProbeReport
from tests.unit.planner.factories import ADAPTED, QWEN


def of(
    memory: str, model: SizedModel, nodes: int, *, in_process: bool = True, device: str | None = None, **asked: Any
) -> Pace:
    settings = Settings(device=device, **asked)
    made = choose((model,), settings, far_device(memory, device), nodes=nodes, in_process=in_process)
    found = predicted(made, (model,), settings)
    assert found is not None
    return found


def test_a_bound_is_what_the_best_device_could_and_the_range_is_wide() -> None:
    found = of("24GB", QWEN, 1)
    assert 0 < found.least < found.most / 3
    assert all(name in found.source for name in ("not measured", "L4", "RTX 4090", "30%", "20%"))


def test_a_pass_over_the_weights_costs_at_least_what_reading_them_does() -> None:
    tokens = 200
    found = of("141GB", QWEN, 1, max_new_tokens=tokens, local_groups=1, external_groups=0, generations=1)
    assert found.least > tokens * 2 * QWEN.shape.parameters / 4800e9


def test_more_nodes_and_longer_completions_take_longer_and_adapters_together_read_the_base_once() -> None:
    one, four = of("80GB", ADAPTED, 1, adapter="lora"), of("80GB", ADAPTED, 4, adapter="lora")
    assert one.least < four.least < 4 * one.least, "one pass of the base for all"
    apart = of("80GB", ADAPTED, 4, adapter="lora", in_process=False)
    assert four.least < apart.least
    assert of("80GB", QWEN, 1, max_new_tokens=512).least > of("80GB", QWEN, 1, max_new_tokens=64).least


def test_without_bf16_whole_models_are_trained_at_the_pace_of_fp32() -> None:
    asked: dict[str, Any] = {"local_groups": 1, "external_groups": 0, "generations": 2, "max_new_tokens": 32}
    assert of("16GB", QWEN, 1, **asked).least > 2 * of("16GB", ADAPTED, 1, adapter="lora", **asked).least


def test_of_a_machine_without_a_gpu_nothing_is_predicted() -> None:
    settings = Settings(device="cpu")
    made = choose((QWEN,), settings, far_device("64GB", "cpu"), nodes=1, in_process=False)
    assert predicted(made, (QWEN,), settings) is None


@pytest.mark.parametrize(("in_process", "at_once", "turns"), [(True, 4, 8), (False, 4, 2), (False, 3, 3)])
def test_measured_nodes_take_turns_on_this_machine(in_process: bool, at_once: int, turns: int) -> None:
    made = choose((QWEN,), Settings(), far_device("900GB", "cpu"), nodes=8, in_process=in_process)
    found = measured(ProbeReport(generation_s=2.0, update_s=3.0), made, at_once=at_once)
    assert found is not None
    assert (found.least, found.most) == (turns * 2.0, turns * 5.0)
    assert measured(ProbeReport(generation_s=2.0), made, at_once=1) is None


def test_measured_adapters_of_one_process_may_generate_as_fast_as_one() -> None:
    asked = Settings(adapter="lora")
    made = choose((ADAPTED,), asked, far_device("900GB", "cpu"), nodes=8, in_process=True)
    found = measured(ProbeReport(generation_s=2.0, update_s=3.0), made, at_once=1)
    assert found is not None
    assert (found.least, found.most) == (2.0, 40.0)
