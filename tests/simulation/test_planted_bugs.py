"""The simulator finds bugs: each of those that earlier attempts had, planted again, breaks a law within some seeds.

Each is a small change to the real deciding code, or to what carries it out; SEEDS says within how many runs of a small
swarm it has to be caught. Without any of them the same seeds break none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pytest

from swarm.node.coordinator.coordinator_machine import CoordinatorMachine, Look, WriteState
from swarm.node.worker import events as m
from swarm.node.worker.worker_machine import WorkerMachine
from swarm.store.folder.publish import publish
from swarm.types import RoundKey
from tests.simulation import coordinator_node, worker_node
from tests.simulation.coordinator_node import CoordinatorNode
from tests.simulation.folder import Checkpoint, Folder, RolloutsFile, Row, State
from tests.simulation.laws import BrokenLawError
from tests.simulation.plan import Plan
from tests.simulation.worker_node import WorkerNode
from tests.simulation.world import World
from tests.simulation.write_steps import WriteSteps, taken_down

SEEDS = 40
WORKERS = 6
Patch = pytest.MonkeyPatch


def first_broken_law(write_steps: WriteSteps | None = None, seeds: Iterable[int] = range(SEEDS)) -> str:
    """What the first seed that breaks a law says; nothing if none does."""
    for seed in seeds:
        try:
            World(Plan.drawn(seed, workers=WORKERS), write_steps=write_steps).run()
        except BrokenLawError as broken:
            return str(broken)
    return ""


def rounds_advance_twice(patch: Patch) -> None:
    class AdvancesTwice(CoordinatorMachine):
        def _advance(self, look: Look, reason: str) -> WriteState:
            super()._advance(look, reason)
            return super()._advance(look, reason)

    patch.setattr(coordinator_node, "CoordinatorMachine", AdvancesTwice)


def a_coordinator_restarts_at_round_0(patch: Patch) -> None:
    patch.setattr(CoordinatorNode, "resume_point", lambda self, state: RoundKey(0))


def a_torn_state_is_taken_for_round_0(patch: Patch) -> None:
    def resume_point(self: CoordinatorNode, state: State | None) -> RoundKey:
        return state.key if state else RoundKey(0)  # what is torn has the default of every field

    patch.setattr(CoordinatorNode, "resume_point", resume_point)


def a_fixed_sleep_is_the_barrier(patch: Patch) -> None:
    def look_around(self: WorkerMachine) -> Sequence[m.Instruction]:
        if self.phase is m.Phase.GATHERING and self.key:
            self.wake_at = min(self.wake_at or 0.0, self._gather_since + 0.5)
        return usual(self)

    usual = WorkerMachine._look_around
    patch.setattr(WorkerMachine, "_look_around", look_around)


def what_lies_there_is_not_taken(patch: Patch) -> None:
    """The groups of live peers have arrived, and are not trained on."""
    patch.setattr(WorkerMachine, "_sources", lambda self, mine: {})


def rows_are_forgotten_at_a_restart(patch: Patch) -> None:
    """A round is done again whose row is there already: it counts twice."""
    usual = Folder.rows_of

    def rows_of(self: Folder, node: str) -> list[Row]:
        return usual(self, node)[:-1]

    patch.setattr(WorkerNode, "_loaded", _seeing(WorkerNode._loaded, "rows_of", rows_of))


def checkpoints_are_never_loaded(patch: Patch) -> None:
    def newest_checkpoint(self: Folder, node: str) -> Checkpoint | None:
        return None

    patch.setattr(worker_node, "rounds_to_redo", lambda rows, checkpoint: [])
    patch.setattr(WorkerNode, "_loaded", _seeing(WorkerNode._loaded, "newest_checkpoint", newest_checkpoint))


def _seeing(loaded: Callable[[WorkerNode], None], name: str, reads: Callable[..., object]) -> Callable[..., None]:
    """A node that reads the folder in another way when it starts."""

    def changed(self: WorkerNode) -> None:
        setattr(self.world.folder, name, partial(reads, self.world.folder))
        try:
            loaded(self)
        finally:
            delattr(self.world.folder, name)

    return changed


def a_round_is_redone_twice(patch: Patch) -> None:
    """The redo counts from the beginning, although the checkpoint has those rounds."""
    usual = worker_node.rounds_to_redo
    patch.setattr(worker_node, "rounds_to_redo", lambda rows, checkpoint: usual(rows, None))


def published_rollouts_are_drawn_anew(patch: Patch) -> None:
    usual = WorkerNode._draw

    def draw(self: WorkerNode, key: RoundKey) -> RolloutsFile:
        with pytest.MonkeyPatch.context() as blind:
            blind.setattr(Folder, "rollouts_of", lambda self, owner, key: None)
            return usual(self, key)

    patch.setattr(WorkerNode, "_draw", draw)


def a_dead_worker_is_waited_for_for_ever(patch: Patch) -> None:
    class WaitsForEver(CoordinatorMachine):
        def handle(self, look: Look) -> object:
            self._ever = getattr(self, "_ever", frozenset()) | look.live
            self._interval = float("inf")
            return super().handle(replace(look, live=self._ever, front=None))

    patch.setattr(coordinator_node, "CoordinatorMachine", WaitsForEver)


def the_clock_goes_back_to_a_stale_state(patch: Patch) -> None:
    class Believes(CoordinatorMachine):
        def _follow(self, look: Look) -> None:
            if look.clock is not None and self.key is not None:
                self.key = look.clock.key

    patch.setattr(coordinator_node, "CoordinatorMachine", Believes)


def nobody_goes_on_without_a_coordinator(patch: Patch) -> None:
    patch.setattr(WorkerMachine, "_go_on_alone", lambda self: None)


def nobody_follows_a_coordinator_that_came_back(patch: Patch) -> None:
    usual = WorkerMachine._on_coordinator
    patch.setattr(WorkerMachine, "_on_coordinator", lambda self, alive: usual(self, alive and not self.on_own_clock))


def the_first_to_arrive_decides(patch: Patch) -> None:
    """Of a peer's rounds within the window, whichever came first."""

    def sources(self: WorkerMachine, mine: RoundKey) -> dict[str, RoundKey]:
        found: dict[str, RoundKey] = {}
        for key, peers in self._arrived.items():
            if abs(key.round - mine.round) <= (self._window if self.on_own_clock else 0):
                for peer in peers:
                    found.setdefault(peer, key)
        return dict(sorted(found.items()))

    patch.setattr(WorkerMachine, "_sources", sources)


@dataclass(frozen=True)
class Planted:
    """One bug, and a part of what the broken law says."""

    plant: Callable[[Patch], None]
    says: tuple[str, ...]


BUGS = [
    Planted(rounds_advance_twice, ("the clock goes from",)),
    Planted(a_coordinator_restarts_at_round_0, ("it takes the clock over",)),
    Planted(a_torn_state_is_taken_for_round_0, ("it takes the clock over",)),
    Planted(a_fixed_sleep_is_the_barrier, ("it did not wait for",)),
    Planted(what_lies_there_is_not_taken, ("the newest of each peer",)),
    Planted(rows_are_forgotten_at_a_restart, ("or one has two rows", "a round is done again", "not in the weights")),
    Planted(checkpoints_are_never_loaded, ("not in the weights",)),
    Planted(a_round_is_redone_twice, ("its weights hold a round twice",)),
    Planted(published_rollouts_are_drawn_anew, ("an acknowledged rollout file is changed",)),
    Planted(a_dead_worker_is_waited_for_for_ever, ("it stands still",)),
    Planted(the_clock_goes_back_to_a_stale_state, ("the clock goes back",)),
    Planted(nobody_goes_on_without_a_coordinator, ("it stands still",)),
    Planted(nobody_follows_a_coordinator_that_came_back, ("it does not follow", "a round begins where the clock is")),
    Planted(the_first_to_arrive_decides, ("the newest of each peer",)),
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.plant.__name__)
def test_a_planted_bug_is_caught(bug: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    said = first_broken_law()
    assert any(part in said for part in bug.says), said or f"{SEEDS} seeds broke no law"


def test_a_write_that_is_acknowledged_before_it_is_durable_is_caught() -> None:
    """The real publish, told not to sync, is simulated as what it then does."""
    hasty = taken_down(lambda *arguments, durable: publish(*arguments, durable=False))
    assert "sync" not in hasty.publish
    said = first_broken_law(hasty)
    assert "an acknowledged rollout file is lost" in said, said


def test_a_row_that_is_acknowledged_before_it_is_durable_is_caught() -> None:
    usual = taken_down()
    said = first_broken_law(usual._replace(append=tuple(step for step in usual.append if step != "sync")))
    assert "an update that no row tells of" in said or "a row without its reward" in said, said


def test_without_any_planted_bug_the_same_seeds_break_no_law() -> None:
    assert first_broken_law() == ""
