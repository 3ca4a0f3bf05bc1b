"""Whole swarms in virtual time keep all laws; the same seed is the same run."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.simulation.faults import Faults
from tests.simulation.laws import BrokenLawError
from tests.simulation.plan import Plan
from tests.simulation.world import Outcome, World

ROOT = Path(__file__).parents[2]
FEW = 8
"""Workers of a small swarm, which a test can afford many of."""


def run(plan: Plan) -> Outcome:
    return World(plan).run()


def traced(plan: Plan) -> list[str]:
    trace: list[str] = []
    World(plan, trace=trace).run()
    return trace


def run_all(seeds: Iterable[int], *, workers: int | None = None) -> Counter[str]:
    """The faults that were injected; a broken law raises and says which seed it was."""
    injected: Counter[str] = Counter()
    for seed in seeds:
        injected.update(run(Plan.drawn(seed, workers=workers)).injected)
    return injected


# ── whatever goes wrong ─────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("first", range(0, 200, 25))
def test_small_swarms_keep_all_laws_whatever_goes_wrong(first: int) -> None:
    run_all(range(first, first + 25), workers=FEW)


@pytest.mark.parametrize("first", range(1000, 1060, 20))
def test_swarms_of_twenty_and_more_keep_all_laws_whatever_goes_wrong(first: int) -> None:
    run_all(range(first, first + 20))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(10_000, 12_000, 100))
def test_two_thousand_swarms_keep_all_laws(first: int) -> None:
    """Eight of them of two hundred workers."""
    run_all(range(first, first + 100))


def test_every_kind_of_fault_is_injected() -> None:
    injected = run_all(range(40), workers=FEW)
    missing = {field.name for field in fields(Faults)} - {"deaths_in_writing"} - {k for k, n in injected.items() if n}
    assert not missing
    assert all(injected[f"in_writing:{kind}"] for kind in ("kill", "power_cut", "pause"))
    assert injected["vandalised_states"]
    assert injected["vandalised_rollouts"]


@pytest.mark.parametrize("kind", [field.name for field in fields(Faults)])
def test_a_rate_of_zero_switches_a_fault_off(kind: str) -> None:
    everything = Faults(**{field.name: 0.5 for field in fields(Faults)})
    plan = replace(Plan.drawn(0, workers=FEW), faults=everything.without(kind))
    injected = run(plan).injected
    if kind == "deaths_in_writing":
        assert not injected["in_writing:kill"]
        assert not injected["in_writing:power_cut"]
    else:
        assert not injected[kind]
    if kind == "pauses":
        assert not injected["in_writing:pause"]


# ── where nothing goes wrong ────────────────────────────────────────────────────────────────────────────────────────
def undisturbed(seed: int, **changes: object) -> World:
    plain = Plan(seed=seed, workers=FEW, rounds=6, faults=Faults())
    return World(replace(plain, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("own_clock", [False, True])
def test_where_nothing_goes_wrong_every_node_does_every_round(seed: int, own_clock: bool) -> None:
    """Rounds once advanced twice, so that only even folders existed."""
    world = undisturbed(seed, own_clock=own_clock)
    world.run()
    for worker in world.workers:
        assert [row.round for row in world.folder.rows_of(worker.name)] == list(range(6))
        assert worker.weights == list(range(6))


@pytest.mark.parametrize("seed", range(5))
def test_where_nothing_goes_wrong_everybody_learns_from_everybody_or_has_waited_as_long_as_before(seed: int) -> None:
    """A fixed sleep was once the barrier, so that nobody's groups were there yet."""
    trains = [line.partition("-> Train(")[2] for line in traced(Plan(seed=seed, workers=4, rounds=4, faults=Faults()))]
    trains = [train for train in trains if train]
    assert len(trains) == 16
    assert all(train.count("('node") == 3 for train in trains if "timed_out=False" in train)
    assert all("timed_out=False" in train for train in trains[:4]), "of nothing is it known yet how long it takes"


@pytest.mark.parametrize("seed", range(5))
def test_a_swarm_without_sharing_runs_to_its_end(seed: int) -> None:
    faults = Faults(kills=3.0, coordinator_deaths=1.0, late_joiners=0.5)
    run(Plan(seed=seed, workers=FEW, rounds=6, faults=faults, external_groups=0))


@pytest.mark.parametrize("seed", range(5))
def test_the_clock_visits_every_stage(seed: int) -> None:
    world = undisturbed(seed, stages=2, rounds=3)
    world.run()
    opened = [(state.key.round, state.key.stage) for state in world.folder.states if not state.held]
    assert opened == [(r, s) for r in range(3) for s in range(2)] + [(3, 0)]


def test_one_worker_that_lives_goes_on_when_all_others_and_the_coordinator_are_gone() -> None:
    world = undisturbed(3)
    last, *others = world.workers
    world.injected["coordinator_deaths"] = len(world.coordinators)
    for process in (*others, *world.coordinators):
        world.quitters.add(process.name)
        world.after(25.0, lambda process=process: process.die(power_cut=True, back_in=None))
    world.run()
    assert last.finished
    assert last.weights == list(range(6))


# ── the same seed ───────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("seed", range(3))
def test_a_seed_gives_the_same_trace(seed: int) -> None:
    plan = Plan.drawn(seed, workers=FEW)
    assert traced(plan) == traced(plan)
    assert traced(plan) != traced(Plan.drawn(seed + 1, workers=FEW))


def test_a_seed_gives_the_same_trace_in_another_process_byte_for_byte() -> None:
    first, second = (_trace_of_a_process(hash_seed) for hash_seed in ("1", "2"))
    assert first == second
    assert len(first.splitlines()) > 500


def _trace_of_a_process(hash_seed: str) -> bytes:
    command = [sys.executable, "-m", "tests.simulation", "--seed", "7", "--runs", "1", "--workers", str(FEW), "--trace"]
    environment = {"PYTHONHASHSEED": hash_seed, "PATH": ""}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True, timeout=PATIENCE).stdout


def test_a_seed_that_breaks_a_law_breaks_it_again() -> None:
    def broken() -> str:
        world = World(Plan.drawn(5, workers=FEW))
        world.laws.stepped = lambda worker, key: _refuse_round_two(world, worker.name, key.round)  # type: ignore
        with pytest.raises(BrokenLawError) as caught:
            world.run()
        return str(caught.value)

    first = broken()
    assert first == broken()
    assert "of seed 5; see it again with python -m tests.simulation --seed 5 --runs 1 --workers 8 --trace" in first


def _refuse_round_two(world: World, node: str, round_: int) -> None:
    if round_ == 2:
        raise world.laws.broken("a law that forbids round 2", node, round_)
