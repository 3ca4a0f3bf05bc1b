"""What a seed stands for: a swarm, its settings, and the rates of what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tests.simulation.faults import Faults

FAULTS_UNTIL = 70.0
"""Virtual seconds in which faults begin; a run that is left alone takes about as long."""
GREAT_SWARM_EVERY, GREAT_SWARM = 250, 200
"""One seed in so many has so many workers, for fewer rounds."""


@dataclass(frozen=True)
class Plan:
    """One run."""

    seed: int
    workers: int
    rounds: int
    faults: Faults
    stages: int = 1
    external_groups: int = 4
    checkpoint_interval: int = 2
    own_clock: bool = False
    """There is no coordinator at all."""
    standby: bool = False
    """There is a second coordinator."""
    interval: float = 20.0
    """Of a round, seconds; a usual one takes a fifth of it."""
    heartbeat: float = 3.0
    timeout: float = 9.0
    """Until a silent node is taken for dead."""
    patience: float = 40.0
    window: int = 2

    @classmethod
    def drawn(cls, seed: int, *, workers: int | None = None) -> Plan:
        """The run of a seed.

        Args:
            workers: where so many are wanted whatever the seed says.
        """
        rng = Random(f"plan {seed}")
        great = seed % GREAT_SWARM_EVERY == GREAT_SWARM_EVERY - 1
        own_clock = rng.random() < 0.15
        drawn = cls(
            seed=seed,
            workers=GREAT_SWARM if great else rng.randint(20, 30),
            rounds=3 if great else rng.randint(5, 7),
            faults=Faults.drawn(rng),
            stages=2 if not own_clock and rng.random() < 0.05 else 1,
            external_groups=0 if rng.random() < 0.05 else 4,
            checkpoint_interval=rng.randrange(4),
            own_clock=own_clock,
            standby=rng.random() < 0.3,
        )
        return drawn if workers is None else replace(drawn, workers=workers)
