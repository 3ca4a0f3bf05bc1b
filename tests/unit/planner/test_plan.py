"""What fits is chosen: micro-batches as large as fit, without gradient checkpointing, else with it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.config import Settings, load_settings
from swarm.errors import ModelError
from swarm.planner import planner
from swarm.planner.device_memory import DeviceMemory, far_device
from swarm.planner.node_memory import SCORER, SizedModel
from swarm.planner.plan import COMMON, CUDA_CONTEXT, PROCESS, RESERVE, Plan, choose, in_processes
from swarm.planner.planner import Remedy, sized_model
from swarm.policy.embedded import EMBEDDED
from swarm.policy.settings import loading_options
from tests.unit.planner.factories import ADAPTED, QWEN

GB = 10**9


def device(free: float, *, gpu: bool = True, host: float = 1000.0) -> DeviceMemory:
    """free and host are GB."""
    name = "cuda:0" if gpu else "cpu"
    return DeviceMemory(device=name, free=int(free * GB), total=200 * GB, host_free=int(host * GB), bf16=gpu)


def plan(
    free: float, *models: SizedModel, nodes: int = 1, processes: int | None = None, gpu: bool = True, **settings: Any
) -> Plan:
    return choose(
        models or (QWEN,), Settings().with_values(settings), device(free, gpu=gpu), nodes=nodes, processes=processes
    )


def embedded(name: str) -> SizedModel:
    return sized_model(name, Settings(), device(10))


def part(made: Plan, name: str) -> int:
    return sum(one.all for one in made.parts if one.name.startswith(name))


def test_ever_smaller_micro_batches_then_checkpointing_then_nothing() -> None:
    rich, short, shorter, none = plan(60), plan(20), plan(13.5), plan(5)
    assert (rich.gradient_checkpointing, rich.micro_batch_tokens) == (False, 16384)
    assert not short.gradient_checkpointing
    assert short.micro_batch_tokens < 16384
    assert shorter.gradient_checkpointing
    one_larger = plan(20, micro_batch_tokens=2 * short.micro_batch_tokens)
    assert one_larger.micro_batch_tokens == short.micro_batch_tokens, "the largest that fits"
    assert [made.fits for made in (rich, short, shorter, none)] == [True, True, True, False]
    assert none.most_nodes == 0


def test_what_the_settings_demand_is_not_overruled() -> None:
    assert plan(60, gradient_checkpointing=True).gradient_checkpointing
    refused = plan(20, gradient_checkpointing=False)
    assert not refused.gradient_checkpointing
    assert refused.micro_batch_tokens < 16384
    assert plan(60, micro_batch_tokens=1000).micro_batch_tokens == 1000


def test_a_plan_that_fits_leaves_its_reserve_and_one_that_does_not_is_the_smallest() -> None:
    made = plan(20)
    assert made.needed <= 20 * GB * (1 - RESERVE)
    needed = plan(5).needed
    assert not plan(0.99 * needed / GB / (1 - RESERVE)).fits
    assert plan(1.01 * needed / GB / (1 - RESERVE)).fits


@pytest.mark.parametrize("processes", [None, 1, 2])
@pytest.mark.parametrize("free", [25, 60, 139])
def test_the_most_nodes_are_the_last_that_fit(free: float, processes: int | None) -> None:
    forced: dict[str, Any] = {"processes": processes, "gradient_checkpointing": False, "micro_batch_tokens": 4096}
    most = plan(free, **forced).most_nodes
    last, one_more = plan(free, nodes=most, **forced), plan(free, nodes=most + 1, **forced)
    assert (last.fits, last.micro_batch_tokens) == (True, 4096)
    assert not one_more.fits or one_more.micro_batch_tokens < 4096


@pytest.mark.parametrize(("nodes", "processes", "at_work"), [(8, 1, 1), (5, 2, 2), (8, None, 8)])
def test_each_process_has_one_context_and_one_node_at_work(nodes: int, processes: int | None, at_work: int) -> None:
    made, one = plan(500, nodes=nodes, processes=processes), plan(500)
    assert part(made, "CUDA context") == at_work * CUDA_CONTEXT
    assert part(made, "generation") == at_work * part(one, "generation")
    assert part(made, "update") == part(one, "update"), "they take turns by a lease"
    assert part(made, "weights") == nodes * part(one, "weights")


@pytest.mark.parametrize("nodes", [1, 2, 5])
@pytest.mark.parametrize("settings", [{"adapter": "lora"}, {"gpu": False}])
def test_a_process_each_is_as_many_processes_as_nodes(nodes: int, settings: dict[str, Any]) -> None:
    models = ADAPTED, ADAPTED._replace(shape=replace(ADAPTED.shape, name="another", layers=5))
    each, counted = (plan(500, *models, nodes=nodes, processes=most, **settings) for most in (None, nodes))
    assert each.parts == counted.parts


@given(st.integers(1, 50), st.none() | st.integers(1, 60))
def test_every_node_is_in_one_process_and_none_has_two_more_than_another(nodes: int, processes: int | None) -> None:
    dealt = in_processes(nodes, processes)
    assert [number for process in dealt for number in process] == list(range(nodes))
    assert len(dealt) == min(nodes, processes or nodes)
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1


def test_no_micro_batch_is_smaller_than_the_settings_allow() -> None:
    made = plan(0.01, embedded("tiny-qwen2"), tasks=("basic_arithmetic",), gpu=False)
    assert made.prompt_tokens + made.new_tokens < made.micro_batch_tokens
    taken = load_settings({}, {"SWARM_MICRO_BATCH_TOKENS": str(made.micro_batch_tokens)})
    assert taken.micro_batch_tokens == made.micro_batch_tokens == 64


def test_without_a_device_lease_activations_count_for_each_process() -> None:
    assert part(plan(900, nodes=8, device_lease="off"), "update") == 8 * part(plan(900), "update")


def test_a_cpu_is_its_own_host_and_a_gpu_is_not() -> None:
    on_cpu, on_gpu = plan(100, gpu=False), plan(100)
    assert on_cpu.host_needed == 0
    assert part(on_cpu, "process") > PROCESS
    assert on_gpu.host_needed == part(on_gpu, "process") + part(on_gpu, "scorer") + part(on_gpu, "checkpoint copy")


def test_what_diloco_remembers_is_in_host_memory_and_copied_into_checkpoints() -> None:
    plain, diloco = (plan(100, average_every=10, averaging=averaging) for averaging in ("plain", "diloco"))
    assert (
        part(diloco, "outer optimizer") == part(diloco, "optimizer") == 2 * part(plan(100, precision="fp32"), "weights")
    )
    assert part(diloco, "checkpoint copy") == part(plain, "checkpoint copy") + part(diloco, "outer optimizer")
    assert "outer optimizer" not in [found.name for found in plain.parts]


def test_a_host_that_is_too_small_for_checkpoints_is_no_fit_and_of_one_elsewhere_nothing_is_known() -> None:
    assert not choose((QWEN,), Settings(), device(139, host=2), nodes=1, processes=None).fits
    made = choose((QWEN,), Settings(), far_device("60GB", None), nodes=1, processes=None)
    assert (made.fits, made.host_needed > 0) == (True, True)


def test_models_are_dealt_out_in_turn() -> None:
    models = [embedded(name) for name in EMBEDDED[:2]]
    first, second = (part(plan(10, model), "optimizer") for model in models)
    assert part(plan(10, *models, nodes=3), "optimizer") == 2 * first + second
    alone = plan(10, *models, nodes=1)
    assert (alone.models, part(alone, "optimizer")) == (("tiny-2-qwen2",), first)


@pytest.mark.parametrize("named", [None, "cpu", "cuda"])
def test_beside_a_gpu_a_model_is_planned_where_its_node_loads_it(named: str | None) -> None:
    node = Settings(model=EMBEDDED[:1], device=named)
    loaded = loading_options(node)["device"]
    assert sized_model(EMBEDDED[0], node, device(10)).on_host is (loaded == "cpu")


@pytest.mark.parametrize(("processes", "shared"), [(None, COMMON), (1, COMMON + PROCESS + SCORER)])
def test_models_that_compute_on_the_cpu_beside_a_gpu_take_memory_of_the_host_alone(
    processes: int | None, shared: int
) -> None:
    small = embedded("tiny-2-qwen2")
    mixed = plan(500, small, QWEN, nodes=2, processes=processes)
    on_gpu, on_cpu = plan(500, QWEN), plan(500, small._replace(on_host=False), gpu=False)
    assert (mixed.on_host, on_gpu.on_host, on_cpu.on_host) == (("tiny-2-qwen2",), (), ())
    assert mixed.needed == on_gpu.needed
    assert mixed.host_needed == on_gpu.host_needed + on_cpu.needed - shared


def adapted(free: float, nodes: int, *, processes: int | None, gpu: bool = True, **settings: Any) -> Plan:
    return plan(free, ADAPTED, nodes=nodes, processes=processes, gpu=gpu, adapter="lora", **settings)


def test_a_frozen_base_counts_once_for_every_process() -> None:
    one, together, apart = (adapted(900, n, processes=own) for n, own in ((1, 1), (8, 1), (8, None)))
    base = 2 * ADAPTED.shape.parameters
    assert [part(made, "frozen base") for made in (one, together, apart)] == [base, base, 8 * base]
    assert part(together, "optimizer") == 8 * part(one, "optimizer") == 8 * 8 * ADAPTED.footprint.adapter
    assert part(plan(900), "frozen base") == 0


def test_adapters_of_one_process_generate_together_and_are_trained_one_at_a_time() -> None:
    settings: dict[str, Any] = {"gpu": False, "local_groups": 2, "micro_batch_tokens": 1024}
    one, eight = (adapted(900, n, processes=1, **settings) for n in (1, 8))
    assert part(eight, "generation") == part(adapted(900, 1, processes=1, **settings | {"local_groups": 16}), "gen")
    assert part(eight, "generation") + part(eight, "update") == max(
        part(eight, "generation"), part(one, "generation") + part(one, "update")
    )
    apart = adapted(900, 8, processes=None, **settings)
    assert part(apart, "generation") == 8 * part(one, "generation")


def test_the_longest_completion_is_the_last_that_fits() -> None:
    for forced in ({"gradient_checkpointing": False}, {"gradient_checkpointing": None}):
        longest = plan(14, **forced).longest_completion
        assert longest
        assert plan(14, max_new_tokens=longest, **forced).fits
        assert not plan(14, max_new_tokens=longest + 1, **forced).fits
    assert plan(2).longest_completion is None
    assert plan(14, max_new_tokens=9).longest_completion == plan(14).longest_completion


# ── where nothing fits ────────────────────────────────────────────────────────────────────────────────────────────────
def remedies(
    monkeypatch: pytest.MonkeyPatch, memory: str, nodes: int, *, processes: int | None = None, **asked: object
) -> list[Remedy]:
    """For nodes that do not fit into a GPU of this memory."""

    def planned(tried: Settings, nodes: int, processes: int | None, *_: object) -> Plan:
        if "refused" in (tried.adapter.targets or ()) and tried.adapter.kind == "lora":
            raise ModelError("no layer has that name")
        model = ADAPTED if tried.adapter.kind == "lora" else QWEN
        return choose((model,), tried, far_device(memory, None), nodes=nodes, processes=processes)

    monkeypatch.setattr(planner, "make_plan", planned)
    settings = Settings().with_values(asked)
    made = planned(settings, nodes, processes)
    assert not made.fits
    return planner.remedies_of(made, settings)


@pytest.mark.parametrize(
    ("memory", "nodes", "asked", "flags"),
    [
        ("16GB", 8, {}, ["--adapter lora --in-process", "--nodes N"]),
        ("16GB", 8, {"processes": 1, "adapter_targets": ("refused",)}, ["--nodes N"]),
        ("1GB", 1, {}, []),
        ("92GB", 8, {}, ["--in-process", "--adapter lora", "--adapter lora --in-process", "--nodes N"]),
        ("11GB", 8, {"processes": 1, "adapter": "lora", "max_new_tokens": 4000}, ["--max-new-tokens N", "--nodes N"]),
    ],
    ids=[
        "adapters, or fewer",
        "fewer",
        "nothing",
        "first what changes nothing of what is learned",
        "shorter, or fewer",
    ],
)
def test_who_does_not_fit_is_told_of_what_would(
    memory: str, nodes: int, asked: dict[str, Any], flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = remedies(monkeypatch, memory, nodes, **asked)
    assert [re.sub(r"\d+", "N", remedy.flags) for remedy in ways] == flags
    assert all(remedy.plan is None or remedy.plan.fits for remedy in ways)
