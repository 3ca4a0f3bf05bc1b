"""A policy that generates at a stub, for tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from swarm.policy.policy import JoinedPolicy, load_policy
from swarm.policy.settings import GrpoConfig, LoraConfig
from swarm.policy.shared_base import SharedBases
from swarm.remote.server import serve
from swarm.remote.server_config import ServerConfig
from swarm.types import Groups, TrainGroup, TrainReport
from tests.engines.stub_vllm import Stub
from tests.patience import PATIENCE

MODEL = "tiny-2-qwen2"
CONFIG = GrpoConfig(
    learning_rate=3e-3, max_new_tokens=12, importance_cap=2.0, adapter=LoraConfig(rank=4, alpha=8.0, seed=1)
)
QUESTIONS = ["What is 1 + 1?", "Sort: b a", "What is 20 - 7?"]


def policy_of(config: GrpoConfig = CONFIG) -> JoinedPolicy:
    return load_policy(MODEL, config, threads=1, device="cpu")


def neighbours(stub: Stub, folder: Path, names: str) -> list[JoinedPolicy]:
    """Nodes of one process, which share a base."""
    bases, found = SharedBases(), []
    for name in names:
        config = replace(CONFIG, adapter=LoraConfig(rank=4, alpha=8.0, seed=ord(name)))
        policy = load_policy(MODEL, config, threads=1, device="cpu", bases=bases)
        server = ServerConfig(url=stub.url, folder=folder / name, prefix=f"run.{name}", patience=PATIENCE)
        found.append(serve(policy, config, server))
    return found


def server_of(url: str, folder: Path, **more: Any) -> ServerConfig:
    return ServerConfig(
        url=url, folder=folder / "adapters", prefix="run.a", **{"patience": PATIENCE, "pause": 0.001, **more}
    )


def served(stub: Stub, folder: Path, config: GrpoConfig = CONFIG, **more: Any) -> JoinedPolicy:
    return serve(policy_of(config), config, server_of(stub.url, folder, **more))


def ask(policy: JoinedPolicy, seed: int = 1, size: int = 3) -> Groups:
    return policy.generate(QUESTIONS, group_size=size, seed=seed)


def learn(policy: JoinedPolicy, groups: Groups) -> TrainReport:
    """An update on made-up advantages."""
    advantages = (1.0, -0.5, -0.5)
    train = [TrainGroup(question, group, advantages) for question, group in zip(QUESTIONS, groups, strict=True)]
    policy.begin_update(train)
    return policy.finish_update([])
