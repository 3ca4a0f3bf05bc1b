"""What a worker is wired from its settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.errors import ConfigError
from swarm.node.process import wiring
from swarm.node.process.wiring import checked_tasks
from tests.unit.node.factories import FakePolicy, make_settings


def test_tasks_are_those_of_the_profile(tmp_path: Path) -> None:
    assert len(checked_tasks(make_settings(tmp_path))) == 9, "the nine of the paper"
    assert checked_tasks(make_settings(tmp_path, tasks=("bf",))) == ("bf",)
    with pytest.raises(ConfigError, match=r"SWARM_TASKS.*no task 'chess'; it has base_conversion"):
        checked_tasks(make_settings(tmp_path, tasks=("bf", "chess")))


@pytest.mark.parametrize(("setting", "leased"), [("auto", False), ("on", True), ("off", False)])
def test_on_a_cpu_the_device_lease_is_there_on_demand(tmp_path: Path, setting: str, leased: bool) -> None:
    from swarm.policy.leased import LeasedTrainer

    settings = make_settings(tmp_path, model=("tiny-qwen2",), device="cpu", device_lease=setting)
    assert isinstance(wiring._load_policy(settings).trainer, LeasedTrainer) == leased


def test_what_the_model_computes_with_is_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from swarm.policy.policy import JoinedPolicy

    given: dict[str, object] = {}

    def load_policy(*_: object, **keywords: object) -> JoinedPolicy:
        given.update(keywords)
        return JoinedPolicy(FakePolicy(), FakePolicy())

    monkeypatch.setattr("swarm.policy.policy.load_policy", load_policy)
    settings = make_settings(tmp_path, precision="bf16", attention="eager", device="cpu", threads=3)
    wiring._load_policy(settings)
    assert given == {"precision": "bf16", "attention": "eager", "device": "cpu", "threads": 3, "hub_token": None}


@pytest.mark.parametrize("name", ["sampler", "loss", "advantage_scaling"])
def test_a_function_that_cannot_be_had_is_refused_before_anything_starts(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        wiring.check(make_settings(tmp_path, **{name: "nowhere:at_all"}))
