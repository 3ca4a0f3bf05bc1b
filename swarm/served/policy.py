"""A policy that trains here and generates at a server. Implements swarm.types.Policy and RemoteGenerator."""

from __future__ import annotations

from swarm.policy.generator import ModelGenerator
from swarm.policy.policy import JoinedPolicy
from swarm.policy.settings import GrpoConfig
from swarm.served.config import ServerConfig
from swarm.served.generator import ServedGenerator
from swarm.types import Trainer


class ServedPolicy(JoinedPolicy):
    """Joins a generator at a server and a trainer here into a worker's policy."""

    def __init__(self, generator: ServedGenerator, trainer: Trainer) -> None:
        super().__init__(generator, trainer)
        self.ask, self.take_use = generator.ask, generator.take_use


def serve(policy: JoinedPolicy, config: GrpoConfig, server: ServerConfig) -> ServedPolicy:
    """Returns the policy with its generation at a server, which is looked at.

    Raises:
        GenerationServerError: it is there, and refuses.
    """
    assert isinstance(policy.generator, ModelGenerator)
    generator = ServedGenerator(policy.generator, config, server)
    generator.check()
    return ServedPolicy(generator, policy.trainer)
