"""Run whole swarms in virtual time, many seeds of them, and see whether any law is broken.

    python -m tests.simulation --runs 10000 --seed 0 --processes 2      # seeds 0 to 9999
    python -m tests.simulation --seed 4711 --runs 1 --trace             # one of them again, event by event

Ends with 1 if a law was broken; says which seeds did it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import repeat
from multiprocessing import Pool
from typing import NamedTuple

from swarm.cli.say import say
from tests.simulation.laws import BrokenLawError
from tests.simulation.plan import Plan
from tests.simulation.world import Outcome, World


class Result(NamedTuple):
    """Of one seed."""

    seed: int
    workers: int
    outcome: Outcome | None
    broken: str


def main() -> int:
    options = _options()
    seeds = range(options.seed, options.seed + options.runs)
    if options.trace:
        return _trace(seeds[0], options.workers)
    begun, results = time.monotonic(), []
    with _mapped(options.processes) as mapped:
        for result in mapped(seeds, options.workers):
            results.append(result)
            if result.broken:
                say(f"seed {result.seed}: {result.broken}")
            if len(results) % 500 == 0:
                say(f"{len(results)} runs, {time.monotonic() - begun:.0f} s")
    say(_summary(results, time.monotonic() - begun))
    return int(any(result.broken for result in results))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--workers", type=int, help="in each swarm; otherwise the seed says how many")
    parser.add_argument("--trace", action="store_true", help="of the first seed alone, print every event")
    return parser.parse_args()


@contextmanager
def _mapped(processes: int) -> Iterator[object]:
    def alone(seeds: Iterable[int], workers: int | None) -> Iterator[Result]:
        return (run_seed(seed, workers) for seed in seeds)

    if processes == 1:
        yield alone
        return
    with Pool(processes) as pool:
        yield lambda seeds, workers: pool.imap_unordered(_run_one, zip(seeds, repeat(workers), strict=False), 8)


def _run_one(arguments: tuple[int, int | None]) -> Result:
    return run_seed(*arguments)


def run_seed(seed: int, workers: int | None = None) -> Result:
    """One run, as its seed has it."""
    plan = Plan.drawn(seed, workers=workers)
    try:
        return Result(seed, plan.workers, World(plan).run(), "")
    except BrokenLawError as broken:
        return Result(seed, plan.workers, None, str(broken))


def _trace(seed: int, workers: int | None) -> int:
    trace: list[str] = []
    plan = Plan.drawn(seed, workers=workers)
    say(str(plan))
    try:
        World(plan, trace=trace).run()
    except BrokenLawError as broken:
        say("\n".join(trace))
        say(str(broken))
        return 1
    say("\n".join(trace))
    return 0


def _summary(results: list[Result], seconds: float) -> str:
    outcomes = [result.outcome for result in results if result.outcome]
    injected: Counter[str] = Counter()
    for outcome in outcomes:
        injected.update(outcome.injected)
    faults = "\n".join(f"  {kind:22} {number:9}" for kind, number in sorted(injected.items()))
    broken = sum(bool(result.broken) for result in results)
    return (
        f"{len(results)} runs of {min(r.workers for r in results)} to {max(r.workers for r in results)} workers, "
        f"{broken} with a broken law\n"
        f"{sum(o.seconds for o in outcomes) / 3600:.1f} virtual hours, {sum(o.events for o in outcomes)} events, "
        f"{sum(o.rows for o in outcomes)} rounds of nodes, {sum(o.rollouts for o in outcomes)} rollout files\n"
        f"{seconds:.0f} s, {seconds / len(results):.3f} s per run\nfaults injected:\n{faults}"
    )


if __name__ == "__main__":
    sys.exit(main())
