"""Seconds of a round come from a measured step."""

from __future__ import annotations

import pytest

from swarm.config import Settings
from swarm.planner.device_memory import far_device
from swarm.planner.plan import choose
from swarm.planner.planner import measured_pace
from swarm.planner.probe import ProbeReport
from tests.unit.planner.factories import ADAPTED, QWEN


@pytest.mark.parametrize(("in_process", "at_once", "turns"), [(True, 4, 8), (False, 4, 2), (False, 3, 3)])
def test_measured_nodes_take_turns_on_this_machine(in_process: bool, at_once: int, turns: int) -> None:
    made = choose((QWEN,), Settings(), far_device("900GB", "cpu"), nodes=8, in_process=in_process)
    found = measured_pace(ProbeReport(generation_s=2.0, update_s=3.0), made, at_once=at_once)
    assert found is not None
    assert (found.least, found.most) == (turns * 2.0, turns * 5.0)
    assert measured_pace(ProbeReport(generation_s=2.0), made, at_once=1) is None


def test_measured_adapters_of_one_process_may_generate_as_fast_as_one() -> None:
    asked = Settings().with_values({"adapter": "lora"})
    made = choose((ADAPTED,), asked, far_device("900GB", "cpu"), nodes=8, in_process=True)
    found = measured_pace(ProbeReport(generation_s=2.0, update_s=3.0), made, at_once=1)
    assert found is not None
    assert (found.least, found.most) == (2.0, 40.0)
