"""Where a plan does not fit, what would is named; nothing is chosen."""

from __future__ import annotations

from swarm.config import Settings
from swarm.errors import ModelError
from swarm.planner.device_memory import far_device
from swarm.planner.plan import Plan, choose
from swarm.planner.planner import Remedy, remedies
from tests.unit.planner.factories import ADAPTED, QWEN


def planned(memory: str, settings: Settings, in_process: bool, nodes: int) -> Plan:
    model = ADAPTED if settings.adapter.kind == "lora" else QWEN
    return choose((model,), settings, far_device(memory, None), nodes=nodes, in_process=in_process)


def found(memory: str, nodes: int, *, in_process: bool = False, **asked: object) -> list[Remedy]:
    settings = Settings().with_values(asked)
    made = planned(memory, settings, in_process, nodes)
    assert not made.fits
    return remedies(made, settings, lambda tried, together: planned(memory, tried, together, nodes))


def test_eight_whole_models_on_a_small_card_are_told_of_adapters_in_one_process() -> None:
    ways = found("16GB", 8)
    assert [remedy.flags for remedy in ways] == ["--adapter lora --in-process", "--nodes 1"]
    assert ways[0].plan is not None
    assert (ways[0].plan.fits, ways[0].plan.adapter, ways[0].plan.in_process) == (True, "lora", True)


def test_what_changes_nothing_of_what_is_learned_comes_first() -> None:
    assert found("92GB", 8)[0].flags == "--in-process"


def test_nodes_of_one_process_with_adapters_have_fewer_and_shorter_left() -> None:
    ways = [
        remedy.flags.split()[0] for remedy in found("10GB", 8, in_process=True, adapter="lora", max_new_tokens=4000)
    ]
    assert ways == ["--max-new-tokens", "--nodes"]


def test_where_nothing_fits_nothing_is_named() -> None:
    assert found("1GB", 1) == []


def test_a_model_that_takes_no_adapter_is_told_of_the_rest() -> None:
    settings = Settings()
    made = planned("16GB", settings, True, 8)

    def planning(tried: Settings, together: bool) -> Plan:
        raise ModelError("no layer has that name")

    assert [remedy.flags for remedy in remedies(made, settings, planning)] == ["--nodes 1"]
