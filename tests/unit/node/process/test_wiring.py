"""What a worker is wired from its settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.config import Settings
from swarm.errors import ConfigError
from swarm.node.process import wiring
from swarm.node.process.daemon import run_node
from swarm.node.process.generator_only import as_it_runs, endpoint_config
from tests.unit.node.factories import FakePolicy, make_settings, there


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


@pytest.mark.parametrize("name", ["sampler", "loss", "advantage_scaling", "adaptive_rule"])
def test_a_function_that_cannot_be_had_is_refused_before_anything_starts(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        wiring.check(make_settings(tmp_path, adaptive=name == "adaptive_rule", **{name: "nowhere:at_all"}))


def test_an_evaluator_loads_no_model_asks_nothing_and_keeps_to_the_coordinators_clock(tmp_path: Path) -> None:
    settings = as_it_runs(make_settings(tmp_path, role="evaluator", model=("nowhere",)))
    assert (settings.local_groups, settings.external_groups, settings.shares) == (0, 0, True)
    policy = wiring._load_policy(settings)
    assert (policy.name, policy.generate(["1?"], group_size=1, seed=0)) == ("", [()])


@pytest.mark.parametrize("role", ["evaluator", "person"])
def test_who_would_run_ahead_of_peers_without_a_clock_needs_a_coordinators(tmp_path: Path, role: str) -> None:
    with pytest.raises(ConfigError, match=f"SWARM_CLOCK: expected coordinator for the role {role}"):
        wiring.check(make_settings(tmp_path, role=role, clock="own"))
    assert as_it_runs(make_settings(tmp_path, role=role)).patience_with_coordinator > 1e8


def test_a_person_is_a_node_of_swarm_answer_alone(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match="NODE_ROLE: a person answers at a terminal, which `swarm answer` starts alone"
    ):
        run_node(make_settings(tmp_path, role="person"))


def test_an_endpoint_is_asked_with_the_nodes_own_texts() -> None:
    settings = Settings(
        endpoint={"base_url": "http://127.0.0.1:1/v1", "model": "m"}, system_prompt="You sort.", instruction="Answer."
    )
    config = there(endpoint_config(settings))
    assert config.asking.turns("1?") == ("You sort.", "Answer.\n\n1?")
