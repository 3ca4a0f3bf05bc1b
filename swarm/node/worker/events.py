"""Names what a worker's machine is told and what it asks for: phases, events, instructions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from swarm.node.sharing.examination import FileNews
from swarm.types import RoundKey


class Phase(StrEnum):
    LOADING = "loading"
    IDLE = "idle"
    GENERATING = "generating"
    SCORING = "scoring"
    PUBLISHING = "publishing"
    GATHERING = "gathering"
    TRAINING = "training"
    SUBMITTING = "submitting"
    SAVING = "saving"
    DONE = "done"


# ── events ──────────────────────────────────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class Ready:
    """The policy is loaded; what is before this round and stage is done."""

    next: RoundKey
    unsaved: bool = False
    """Its checkpoint is older: it was killed, and has redone what it could of the rounds since."""


@dataclass(frozen=True)
class ClockSeen:
    """The state file was read."""

    key: RoundKey
    finished: bool
    now: float
    interval: float = 0.0
    """The longest that the coordinator keeps a round open, seconds; 0: it did not say."""
    max_rounds: int = 0
    """How many rounds there will be; 0: it did not say."""
    back: bool = False
    """Beyond doubt, although it is behind what was seen before, which nobody's clock was."""


@dataclass(frozen=True)
class StepDone:
    """The round in hand has done a step: GENERATING, SCORING, PUBLISHING, TRAINING or SUBMITTING."""

    phase: Phase
    key: RoundKey
    now: float = -math.inf
    """When the gathering begins that follows, of PUBLISHING."""


@dataclass(frozen=True)
class PeersLive:
    """The live workers other than this one."""

    nodes: frozenset[str]
    now: float
    publishing: frozenset[str] = frozenset()
    """Those that have published for this node's round, or the one before it, whether that was taken in or not; before a
    node has begun any, for the first, or for those that live peers work on."""
    called: frozenset[str] = frozenset()
    """What these workers and this node are called in the setting `expected_workers`: names and public keys."""
    coming: frozenset[str] = frozenset()
    """Other workers that are loading their models."""


@dataclass(frozen=True)
class CoordinatorSeen:
    """Tells whether a coordinator is alive, as a look at the heartbeats shows; told once per heartbeat interval."""

    alive: bool
    now: float
    """When the look began: what has happened since, it may have missed."""


@dataclass(frozen=True)
class PeersNews:
    """Tells what there is of these peers' files for a round and stage."""

    news: FileNews
    key: RoundKey
    peers: frozenset[str]
    now: float


@dataclass(frozen=True)
class Drawn:
    """The external groups are drawn, of what was there when Draw was given."""

    key: RoundKey
    complete: bool
    """Not cut off by its deadline."""
    now: float


@dataclass(frozen=True)
class Tick:
    """`wake_at` has come."""

    now: float


@dataclass(frozen=True)
class Saved:
    done: RoundKey


@dataclass(frozen=True)
class SaveFailed:
    """A checkpoint on the way could not be written; the next one is due as if it had not been asked for."""

    done: RoundKey


@dataclass(frozen=True)
class Stop:
    """Finish the step, save, and end."""

    now: float


Event = (
    Ready | ClockSeen | StepDone | PeersLive | CoordinatorSeen | PeersNews | Drawn | Tick | Saved | SaveFailed | Stop
)


# ── instructions ────────────────────────────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class Generate:
    key: RoundKey
    skipped: int
    """Rounds that the clock ran ahead while this node was away or busy."""


@dataclass(frozen=True)
class GenerateAhead:
    """Generate and score the groups of a round that is not open yet; its Generate takes them up."""

    key: RoundKey


@dataclass(frozen=True)
class Step:
    """Do the next step of the round in hand: SCORING, PUBLISHING or SUBMITTING."""

    phase: Phase
    key: RoundKey


@dataclass(frozen=True)
class BeginUpdate:
    """Add up the gradients of the own groups while those of the peers come in; answered by no event.

    Of a round that was generated ahead, as soon as the update before it is made. If that round is then skipped, the
    next BeginUpdate starts from nothing.
    """

    key: RoundKey


@dataclass(frozen=True)
class Draw:
    """Sample J groups from what the heard peers published, verifying no more of it than that takes."""

    key: RoundKey
    sources: tuple[tuple[str, RoundKey], ...]
    """The heard peers, by name, and for which round the groups are that are taken of each."""
    until: float
    """When drawing has to end."""


@dataclass(frozen=True)
class Train:
    """Add the gradients of the groups that were drawn, and make the update."""

    key: RoundKey
    heard: frozenset[str]
    awaited: frozenset[str]
    """The live peers that were worth waiting for, heard or not."""
    timed_out: bool
    late: bool


@dataclass(frozen=True)
class Save:
    """Write a checkpoint of what is before this round and stage."""

    done: RoundKey


@dataclass(frozen=True)
class Finish:
    reason: str
    """`finished`: the experiment is over; `missed`: it was over when this life of the node came, and not all of its
    rounds had been done in earlier ones; `stopped`: somebody asked."""
    rounds_missed: int = 0
    """Where it missed some."""


Instruction = Generate | GenerateAhead | Step | BeginUpdate | Draw | Train | Save | Finish
