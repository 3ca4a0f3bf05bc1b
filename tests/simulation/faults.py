"""What can go wrong, and how often: every kind has a rate of its own, 0 switches it off."""

from __future__ import annotations

from dataclasses import dataclass, fields
from random import Random

DRIFT = 0.01
"""Of its own rate, by which a drifting clock runs fast or slow at most."""


@dataclass(frozen=True)
class Faults:
    """Rates are shares of what they say they are of; numbers are what happens on average within the faults' time."""

    partitions: float = 0.0
    """Number of times that a set of nodes, or one, is cut off from the others."""
    late: float = 0.0
    """Share of (reader, rollout or reward file) that the reader sees seconds later than other files."""
    reordered: float = 0.0
    """Share of (reader, write) that come a little later, so that writes are not seen in the order of writing."""
    lost_hints: float = 0.0
    """Share of hints that never come; the others may be late."""
    doubled_hints: float = 0.0
    """Share of hints that come twice."""
    stale_reads: float = 0.0
    """Share of reads of the state file and of registrations that give an older version."""
    kills: float = 0.0
    """Number of workers killed at any moment; what the system has, it keeps."""
    power_cuts: float = 0.0
    """Number of workers' hosts that lose power: what was not made durable may be gone, or half there."""
    deaths_in_writing: float = 0.0
    """Number of processes killed, or without power, between two steps of a write."""
    coordinator_deaths: float = 0.0
    """Number of times that a coordinator is killed, or loses power; it comes back after a while."""
    pauses: float = 0.0
    """Number of processes stopped for a while, also in the middle of a write, which then lands late."""
    skewed_clocks: float = 0.0
    """Share of hosts whose wall clock is up to a day off."""
    drifting_clocks: float = 0.0
    """Share of hosts whose monotonic clock runs up to 1 % fast or slow."""
    full_disks: float = 0.0
    """Number of hosts that cannot write for a while: a full disk, or one that is read-only."""
    lost_mounts: float = 0.0
    """Number of hosts that can neither read nor write for a while."""
    lost_answers: float = 0.0
    """Share of writes that are carried out, and reported as failed."""
    slow: float = 0.0
    """Share of workers that take many times as long."""
    late_joiners: float = 0.0
    """Share of workers that start when the others are at work."""
    quitters: float = 0.0
    """Number of workers that die and never come back."""
    stops: float = 0.0
    """Number of workers that are asked to stop, and are started again later."""
    liars: float = 0.0
    """Share of runs with a node that registers and beats, and neither publishes nor submits."""
    vandals: float = 0.0
    """Share of runs with a node that writes rubbish over the state file and into the rounds."""
    crowds: float = 0.0
    """Share of runs in which ever new names register, or many at once, and none ever publishes."""
    forgers: float = 0.0
    """Share of runs in which somebody writes clocks that no coordinator has kept."""
    sybils: float = 0.0
    """Share of runs with fakes that beat and have rewards for rounds that nobody has done."""
    obstructers: float = 0.0
    """Share of runs in which prefixes lie where nodes are about to write files, and files where they save."""
    claimants: float = 0.0
    """Share of runs in which registrations of other lives lie in the place of a node's own."""

    @classmethod
    def drawn(cls, rng: Random, of_strangers: Random) -> Faults:
        """Half of the kinds, each at a rate of its own, so that runs differ in what they are made of.

        Args:
            of_strangers: draws who else writes into the place.
        """
        kinds = ((rng, _MOST), (of_strangers, STRANGERS))
        rates = {kind: m * r.random() if r.random() < 0.5 else 0.0 for r, most in kinds for kind, m in most.items()}
        return cls(**rates)

    def without(self, *kinds: str) -> Faults:
        """The same, but for these."""
        return Faults(**{f.name: 0.0 if f.name in kinds else getattr(self, f.name) for f in fields(self)})


_MOST = {
    "partitions": 4.0,
    "late": 0.2,
    "reordered": 0.5,
    "lost_hints": 1.0,
    "doubled_hints": 1.0,
    "stale_reads": 0.3,
    "kills": 4.0,
    "power_cuts": 4.0,
    "deaths_in_writing": 6.0,
    "coordinator_deaths": 3.0,
    "pauses": 5.0,
    "skewed_clocks": 1.0,
    "drifting_clocks": 1.0,
    "full_disks": 4.0,
    "lost_mounts": 2.0,
    "lost_answers": 0.1,
    "slow": 0.3,
    "late_joiners": 0.4,
    "quitters": 2.0,
    "stops": 3.0,
    "liars": 1.0,
    "vandals": 1.0,
}
STRANGERS = {"crowds": 0.7, "forgers": 0.7, "sybils": 0.7, "obstructers": 0.7, "claimants": 0.7}
