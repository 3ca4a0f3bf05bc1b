"""A leased policy is the policy, updated by one process at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import torch

from swarm.errors import ModelError
from swarm.policy.leased import LeasedTrainer, device_to_lease
from swarm.policy.policy import JoinedPolicy, make_policy
from swarm.policy.settings import GrpoConfig
from tests.unit.policy.factories import make_group, make_model


class Lease:
    """Remembers what happened while it was held."""

    def __init__(self) -> None:
        self.history: list[str] = []

    @contextmanager
    def held(self) -> Iterator[None]:
        self.history.append("taken")
        try:
            yield
        finally:
            self.history.append("freed")


def learning_policy(lease: Lease | None = None) -> JoinedPolicy:
    """With a lease: one whose updates take it."""
    policy = make_policy(make_model(), GrpoConfig(learning_rate=1e-2))
    return JoinedPolicy(policy.generator, LeasedTrainer(policy.trainer, lease.held, lambda: 1.5)) if lease else policy


def test_a_leased_policy_does_what_the_policy_does(tmp_path: Path) -> None:
    plain, leased = learning_policy(), learning_policy(Lease())
    for policy in (plain, leased):
        policy.begin_update([make_group()])
    reports = [policy.finish_update([make_group()]) for policy in (plain, leased)]
    assert reports[1] == msgspec.structs.replace(reports[0], seconds_lease=1.5), "with how long it was waited for"
    assert reports[0].updated
    answers = [policy.generate(["?"], group_size=2, seed=1) for policy in (plain, leased)]
    assert answers[0] == answers[1]
    leased.snapshot().write(str(tmp_path))
    fresh = learning_policy(Lease())
    assert fresh.generate(["?"], group_size=2, seed=1) != answers[0]
    fresh.restore(str(tmp_path))
    assert fresh.generate(["?"], group_size=2, seed=1) == answers[0]


def test_updates_alone_take_the_lease_each_half_for_itself(tmp_path: Path) -> None:
    lease = Lease()
    policy = learning_policy(lease)
    policy.generate(["?"], group_size=2, seed=1)
    policy.snapshot().write(str(tmp_path))
    policy.restore(str(tmp_path))
    assert lease.history == []
    policy.begin_update([make_group()])
    assert lease.history == ["taken", "freed"]
    policy.finish_update([make_group()])
    assert lease.history == ["taken", "freed"] * 2


def test_memory_is_given_back_before_the_lease_even_if_the_update_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    lease, trainer = Lease(), learning_policy().trainer

    def fail(_: object) -> None:
        raise ModelError("out of memory")

    monkeypatch.setattr(trainer, "begin_update", fail)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: lease.history.append("emptied"))
    with pytest.raises(ModelError):
        LeasedTrainer(trainer, lease.held, lambda: 0.0).begin_update([make_group()])
    assert lease.history == ["taken", "emptied", "freed"]


def test_a_gpu_is_leased_under_a_name_that_does_not_depend_on_what_a_process_can_see(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Properties:
        uuid = "4c1e-77"

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Properties())
    assert device_to_lease(None, gpus_only=True) == device_to_lease("cuda:3", gpus_only=True) == "cuda-4c1e-77"
