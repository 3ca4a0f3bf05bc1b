"""How a clock begins, and what deaths cost the others, where nobody said how many workers there are.

round 0 is opened ──────▶ nobody who was seen loading is left out of it, but for the longest wait
the end of a run ───────▶ whoever was seen at that opening, lived, and was not disturbed has a row of round 0
a worker is ready ──────▶ round 0 is open after the longest wait, whatever strangers register
all who live are done ──▶ the round is closed two median rounds later; whoever comes back then is too late
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from swarm.node.base.attendance import INTERVALS
from swarm.node.coordinator.coordinator_machine import ROUNDS, CoordinatorLook, Decision, WriteState
from swarm.types import RoundKey
from tests.simulation.faults import DRIFT

if TYPE_CHECKING:
    from tests.simulation.laws import Laws
    from tests.simulation.nodes import CoordinatorHost
    from tests.simulation.world import World

BETWEEN_LOOKS = 5.0
"""Seconds between two looks of a coordinator that nothing keeps from looking."""
_KEEP_SOMEBODY_OUT = (
    "partitions",
    "pauses",
    "in_writing:pause",
    "stale_reads",
    "late",
    "reordered",
    "full_disks",
    "lost_mounts",
    "lost_answers",
    "coordinator_deaths",
    "in_writing:kill",
    "in_writing:power_cut",
    "vandalised_states",
    "forged_states",
    "obstructions",
    "claims",
    "beating_claims",
    "slow",
)
"""Faults after which a round may be closed without one that was there when it was opened."""


@dataclass
class Watch:
    """Of one life of a coordinator's machine."""

    looked_at: float = float("-inf")
    ready_since: float | None = None
    """When it first saw a worker that was ready, before it had opened anything."""
    opened_at: float | None = None
    took: list[float] = field(default_factory=list)
    """Seconds of each round that it opened and closed."""
    done_since: float | None = None
    """Since when all live workers have submitted; looked at again and again since."""
    all_gone: bool = False
    """Nobody lived at some time of this round."""


class StartingLaws:
    """Watches one world."""

    def __init__(self, world: World, laws: Laws) -> None:
        self._world = world
        self._laws = laws
        self._began_with: frozenset[str] = frozenset()
        """Workers that were there when round 0 was opened."""
        self._opened_at = float("inf")

    def decided(
        self, coordinator: CoordinatorHost, watch: Watch, look: CoordinatorLook, decision: Decision | None
    ) -> None:
        """A coordinator has looked, and this is what it does."""
        if self._world.plan.expects:
            return
        now = self._world.now
        steady = now - watch.looked_at < BETWEEN_LOOKS and coordinator.disturbed_at < watch.looked_at
        watch.looked_at = now
        write = decision if isinstance(decision, WriteState) and decision.reason != "restored" else None
        if watch.opened_at is None:
            self._before_the_first(coordinator, watch, look, write)
        else:
            self._in_a_round(coordinator, watch, look, write, steady=steady)
        if write:
            if watch.opened_at is not None:
                watch.took.append(now - watch.opened_at)
            watch.opened_at, watch.done_since, watch.all_gone = now, None, False

    def _before_the_first(
        self, coordinator: CoordinatorHost, watch: Watch, look: CoordinatorLook, write: WriteState | None
    ) -> None:
        now, longest = self._world.now, INTERVALS * self._world.plan.interval
        if look.live and watch.ready_since is None:
            watch.ready_since = now
        ready = now - (watch.ready_since if watch.ready_since is not None else now)
        if write is None:
            overdue = ready > longest + BETWEEN_LOOKS and coordinator.disturbed_at < now - longest
            if overdue and look.live and not look.rival:  # nobody opens a round for workers that it does not see
                raise self._laws.broken(
                    f"a worker is ready since {ready:.1f} s, and no round is open", coordinator.name
                )
            return
        if write.key != RoundKey(0) or write.reason != "opened" or look.clock is not None:
            return
        workers = {worker.name for worker in self._world.workers}
        if (look.coming & workers) and ready < longest * (1 - DRIFT):  # by its own clock it waited all of it
            raise self._laws.broken(f"it begins without {sorted(look.coming & workers)}", coordinator.name, 0)
        if now < self._opened_at:
            self._opened_at, self._began_with = now, look.live & workers

    def _in_a_round(
        self,
        coordinator: CoordinatorHost,
        watch: Watch,
        look: CoordinatorLook,
        write: WriteState | None,
        *,
        steady: bool,
    ) -> None:
        now, interval = self._world.now, self._world.plan.interval
        watch.all_gone |= not look.live
        done = bool(look.counted) and bool(look.live) and look.live <= look.submitted and look.clock is not None
        if not done or not steady:
            watch.done_since = None
            return
        watch.done_since = now if watch.done_since is None else watch.done_since
        bound = min(interval, ROUNDS * median(watch.took[-32:])) if watch.took else interval
        if watch.all_gone:
            bound = max(bound, INTERVALS * interval)
        if write is None and now - watch.done_since > bound + BETWEEN_LOOKS:
            lasts = f"all who live are done for {now - watch.done_since:.1f} s, and the round is open"
            raise self._laws.broken(lasts, coordinator.name, look.clock.key.round if look.clock else None)

    def at_the_end(self) -> None:
        """Whoever was there at the first opening, and lived, has round 0."""
        world = self._world
        if any(world.injected[kind] for kind in _KEEP_SOMEBODY_OUT):
            return
        for worker in world.workers:
            lived = worker.lives == 1 and worker.disturbed_at <= worker.started_at and worker.name not in world.quitters
            if (
                worker.name in self._began_with
                and lived
                and not any(r.round == 0 for r in self._laws.rows_of(worker.name))
            ):
                raise self._laws.broken("it was there at the opening, lived, and has no round 0", worker.name, 0)
