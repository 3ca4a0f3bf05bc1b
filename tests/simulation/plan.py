"""What a seed stands for: a swarm, its settings, and the rates of what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from swarm.config import Settings
from swarm.config.settings import CadenceTable
from tests.simulation.faults import Faults

FAULTS_UNTIL = 60.0
"""Virtual seconds in which faults begin; a run that is left alone takes about as long."""
LARGE_SWARM_EVERY, LARGE_SWARM = 100, 30
"""One seed in so many has so many workers, for fewer rounds."""
ROUNDS_TO_TAKE = 6
"""More rounds where somebody lies about the clock: what a jump may cost without breaking a law must not be all."""
ROUNDS_TO_CLEAN = 8
"""More rounds where old ones are cleaned up: at least three stay."""
SETTLE_TIME = 8.0
"""Seconds without a new worker."""
EXPERIMENT = "simulated"
ARCHIVE = "archive"
"""Prefix of its archive, which lies in the same memory."""
TASKS = ("sums", "words", "grids")


@dataclass(frozen=True)
class Plan:
    """One run."""

    seed: int
    workers: int
    rounds: int
    faults: Faults
    stages: int = 1
    external_groups: int = 2
    checkpoint_interval: int = 2
    staleness: int = 0
    adaptive: bool = False
    own_clock: bool = False
    """There is no coordinator at all."""
    standby: bool = False
    """There is a second coordinator."""
    named: bool = False
    """Workers are expected by name, not by number."""
    expects: bool = True
    """Workers are expected by name or number; else the beginning waits until those who came have settled."""
    cleanup: str = ""
    """Old rollouts go: `delete` or `archive`."""
    hints: bool = False
    """The place tells of changes; else listing finds them."""
    one_by_one: bool = False
    """Some nodes publish their groups one by one."""
    sparing: bool = False
    """Each look is paid for, as in a bucket: nodes look only while they wait for something."""
    interval: float = 20.0
    """Of a round, seconds; a usual one takes a fifth of it."""
    heartbeat: float = 3.0
    timeout: float = 9.0
    """Until a silent node is taken for dead."""

    @classmethod
    def drawn(cls, seed: int, *, workers: int | None = None) -> Plan:
        """The run of a seed.

        Args:
            workers: where so many are wanted whatever the seed says.
        """
        rng = Random(f"plan {seed}")
        sparing = Random(f"sparing {seed}").random() < 0.1
        large = seed % LARGE_SWARM_EVERY == LARGE_SWARM_EVERY - 1
        own_clock = rng.random() < 0.15
        of_strangers = Random(f"strangers {seed}")
        size, rounds = (LARGE_SWARM, 2) if large else (rng.randint(3, 8), rng.randint(4, 6))
        faults = Faults.drawn(rng, of_strangers)
        of_cleanup = Random(f"cleanup {seed}")
        cleanup = of_cleanup.choice(["delete", "archive"]) if not large and of_cleanup.random() < 0.2 else ""
        stages = 2 if not own_clock and rng.random() < 0.05 else 1
        drawn = cls(
            seed=seed,
            workers=size,
            rounds=rounds
            + ROUNDS_TO_TAKE * bool(not large and (faults.forgers or faults.sybils))
            + ROUNDS_TO_CLEAN * bool(cleanup),
            cleanup=cleanup,
            faults=faults,
            stages=stages,
            external_groups=0 if rng.random() < 0.05 else 2,
            checkpoint_interval=rng.randrange(4),
            staleness=rng.randrange(2) if stages == 1 else 0 * rng.randrange(2),
            adaptive=rng.random() < 0.15,
            own_clock=own_clock,
            standby=rng.random() < 0.3,
            hints=not large and rng.random() < 0.4,
            one_by_one=Random(f"one by one {seed}").random() < 0.3,
            sparing=sparing,
            timeout=12.0 if sparing else 9.0,
            named=faults.sybils > 0 and of_strangers.random() < 0.4,
        )
        if Random(f"expects {seed}").random() < 0.5:
            drawn = replace(drawn, expects=False, named=False)
        return drawn if workers is None else replace(drawn, workers=workers)

    @property
    def worker_names(self) -> tuple[str, ...]:
        return tuple(f"node{number:02}" for number in range(self.workers))

    def publishes_one_by_one(self, node: str) -> bool:
        return self.one_by_one and Random(f"one by one {self.seed} {node}").random() < 0.7

    def settings(self, node: str, *, standby: bool = False) -> Settings:
        """Of one node."""
        return Settings(
            path="s3://nowhere" if self.sparing else "nowhere",
            experiment=EXPERIMENT,
            role="coordinator" if node.startswith("coordinator") else "worker",
            node_id=node,
            model=("light",),
            seed=self.seed,
            max_rounds=self.rounds,
            max_stages=self.stages,
            revise={"templates": [f"{{question}}\n\nStage {s}\n{{answers}}" for s in range(1, max(2, self.stages))]},
            local_groups=2,
            external_groups=self.external_groups,
            generations=3,
            round_interval=self.interval,
            publish_frequency="generation" if self.publishes_one_by_one(node) else "stage",
            adaptive=self.adaptive and self.external_groups > 0,
            checkpoint_interval=max(self.checkpoint_interval, bool(self.cleanup)),  # else all stay
            clock="own" if self.own_clock else "coordinator",
            standby=standby,
            expected_workers=self.worker_names if self.named else self.workers if self.expects else None,
            settle_time=SETTLE_TIME,
            cadence=CadenceTable(
                heartbeat_interval=self.heartbeat,
                liveness_timeout=self.timeout,
                reconcile_interval=1.5,
                watch="auto" if self.hints else "off",
            ),
            staleness=self.staleness,
            cleanup=bool(self.cleanup),
            archive_old=self.cleanup == "archive",
            keep_last_rounds=1,
            sampler="uniform" if self.seed % 8 else "whole-pool",
        )
