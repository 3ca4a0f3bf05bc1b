"""Whole swarms in virtual time keep all laws; the same seed is the same run."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path

import pytest

from swarm.types import RoundKey
from tests.simulation.faults import Faults
from tests.simulation.laws import without_answers
from tests.simulation.plan import Plan
from tests.simulation.world import Outcome, World

ROOT = Path(__file__).parents[2]
FEW = 4
"""Workers of a small swarm, which a test can afford many of."""
NO_COUNT_OF_THEIR_OWN = {"deaths_in_writing"}
"""They are counted by what came of them, as `in_writing:kill`."""


def run(plan: Plan) -> Outcome:
    return World(plan).run()


def run_all(seeds: Iterable[int], *, workers: int | None = None) -> Counter[str]:
    """The faults that were injected; a broken law raises and says which seed it was."""
    injected: Counter[str] = Counter()
    for seed in seeds:
        injected.update(run(Plan.drawn(seed, workers=workers)).injected)
    return injected


def rounds_of(world: World, node: str) -> list[int]:
    return [row.round for row in world.laws.rows_of(node)]


# ── whatever goes wrong ─────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.timeout(900)
def test_swarms_keep_all_laws_whatever_goes_wrong() -> None:
    run_all(range(2))


@pytest.mark.engine
@pytest.mark.timeout(3000)
def test_many_swarms_keep_all_laws_and_everything_goes_wrong() -> None:
    injected = run_all(range(2, 21), workers=FEW)
    missing = {field.name for field in fields(Faults)} - NO_COUNT_OF_THEIR_OWN - {k for k, n in injected.items() if n}
    assert not missing
    assert all(injected[f"in_writing:{kind}"] for kind in ("kill", "power_cut", "pause"))
    assert injected["vandalised_states"]
    assert injected["vandalised_rollouts"]


@pytest.mark.engine
@pytest.mark.timeout(900)
def test_a_swarm_of_thirty_keeps_all_laws_whatever_goes_wrong() -> None:
    run_all([99])


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(10_000, 11_000, 100))
def test_a_thousand_swarms_keep_all_laws(first: int) -> None:
    """Ten of them of thirty workers."""
    run_all(range(first, first + 100))


# ── where nothing goes wrong ────────────────────────────────────────────────────────────────────────────────────────
def undisturbed(seed: int, **changes: object) -> World:
    plain = Plan(seed=seed, workers=FEW, rounds=5, faults=Faults(), hints=seed % 2 == 0)
    return World(replace(plain, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(("seed", "own_clock"), [(0, False), (1, True)])
def test_where_nothing_goes_wrong_every_node_does_every_round(seed: int, own_clock: bool) -> None:
    """Rounds once advanced twice, so that only even folders existed."""
    world = undisturbed(seed, own_clock=own_clock)
    assert not any(world.run().injected.values()), "faults without a rate"
    for worker in world.workers:
        assert rounds_of(world, worker.name) == list(range(5))
        assert len(worker.policy.updates) == 5


def test_where_nothing_goes_wrong_everybody_learns_from_everybody_or_has_waited_as_long_as_before() -> None:
    """A fixed sleep was once the barrier, so that nobody's groups were there yet."""
    world = undisturbed(0, rounds=4)
    world.run()
    rows = [row for worker in world.workers for row in world.laws.rows_of(worker.name)]
    assert len(rows) == 4 * FEW
    assert all(row.peers_heard == FEW - 1 for row in rows if not row.gather_timed_out)
    assert not any(row.gather_timed_out for row in rows if row.round == 0), (
        "of nothing is it known yet how long it takes"
    )


def test_a_swarm_without_sharing_runs_to_its_end() -> None:
    faults = Faults(kills=3.0, coordinator_deaths=1.0, late_joiners=0.5)
    run(Plan(seed=0, workers=FEW, rounds=5, faults=faults, external_groups=0))


def test_the_clock_visits_every_stage() -> None:
    world = undisturbed(0, stages=2, rounds=3)
    world.run()
    opened = [RoundKey(state.round, state.stage) for state in world.laws.states() if not state.held]
    assert opened == [RoundKey(r, s) for r in range(3) for s in range(2)] + [RoundKey(3)]
    updates = [update for worker in world.workers for update in worker.policy.updates]
    shown = [prompt for update in updates for prompt in update.own if without_answers(prompt) != prompt]
    assert len(shown) == sum(map(len, (update.own for update in updates))) / 2, "each second stage shows answers"
    assert any("\n2. " in prompt for prompt in shown), "peers' among them"


@pytest.mark.parametrize(("seed", "own_clock"), [(0, False), (1, True)])
def test_rounds_of_several_stages_come_out_the_same_after_kills(seed: int, own_clock: bool) -> None:
    faults = Faults(kills=3.0, coordinator_deaths=0.0 if own_clock else 1.0, late_joiners=0.5)
    run(Plan(seed=seed, workers=FEW, rounds=5, faults=faults, stages=2 + seed % 2, own_clock=own_clock, staleness=0))


def test_one_worker_that_lives_goes_on_when_all_others_and_the_coordinator_are_gone() -> None:
    world = undisturbed(3)
    last, *others = world.workers
    world.injected["coordinator_deaths"] = len(world.coordinators)
    for host in (*others, *world.coordinators):
        world.quitters.add(host.name)
        world.after(12.0, lambda host=host: host.die(power_cut=True, back_in=None))
    world.run()
    assert last.finished
    assert rounds_of(world, last.name) == list(range(5))


# ── the same seed ───────────────────────────────────────────────────────────────────────────────────────────────────
def test_a_seed_gives_the_same_trace_in_another_process_byte_for_byte() -> None:
    first, second = (_trace_of_a_process(hash_seed) for hash_seed in ("1", "2"))
    assert first == second != _trace_of_a_process("1", seed=8)
    assert len(first.splitlines()) > 200


def _trace_of_a_process(hash_seed: str, seed: int = 7) -> bytes:
    plan = ["--seed", str(seed), "--runs", "1", "--workers", str(FEW), "--trace"]
    command = [sys.executable, "-m", "tests.simulation", *plan]
    environment = {"PYTHONHASHSEED": hash_seed, "PATH": ""}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True, timeout=100).stdout
