"""Run whole swarms in virtual time, many seeds of them, and see whether any law is broken.

    python -m tests.simulation --runs 10000 --seed 0 --jobs 2           # seeds 0 to 9999
    python -m tests.simulation --seed 4711 --runs 1 --trace             # one of them again, event by event

Ends with 1 if a law was broken; says which seeds did it, and how each is seen again.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from multiprocessing import Pool
from typing import NamedTuple

from swarm.cli.say import say
from tests.simulation.laws import BrokenLawError
from tests.simulation.plan import Plan
from tests.simulation.world import Outcome, World

REPORT_EVERY = 100
"""Runs between two lines of progress."""


class Result(NamedTuple):
    """Of one seed."""

    seed: int
    workers: int
    outcome: Outcome | None
    broken: str


@dataclass
class Figures:
    """What came of all seeds so far."""

    runs: int = 0
    workers: list[int] = field(default_factory=list)
    broken: int = 0
    virtual_seconds: float = 0.0
    counted: Counter[str] = field(default_factory=Counter)
    injected: Counter[str] = field(default_factory=Counter)

    def add(self, result: Result) -> None:
        self.runs += 1
        self.workers = [min([result.workers, *self.workers]), max([result.workers, *self.workers])]
        self.broken += bool(result.broken)
        if outcome := result.outcome:
            self.virtual_seconds += outcome.seconds
            self.counted.update(events=outcome.events, rows=outcome.rows, rollouts=outcome.rollouts)
            self.injected.update(outcome.injected)

    def told(self, seconds: float) -> str:
        faults = "\n".join(f"  {kind:22} {number:9}" for kind, number in sorted(self.injected.items()))
        sizes = " to ".join(map(str, self.workers))
        return (
            f"{self.runs} runs of {sizes} workers, {self.broken} with a broken law\n"
            f"{self.virtual_seconds / 3600:.1f} virtual hours, {self.counted['events']} events, "
            f"{self.counted['rows']} rounds of nodes, {self.counted['rollouts']} rollout files\n"
            f"{seconds:.0f} s, {seconds / max(1, self.runs):.3f} s per run\nfaults injected:\n{faults}"
        )


def main() -> int:
    options = _options()
    if options.trace:
        return _trace(options.seed, options.workers)
    figures, begun = Figures(), time.monotonic()
    with _mapped(options.jobs) as mapped:
        for result in mapped(range(options.seed, options.seed + options.runs), options.workers):
            figures.add(result)
            if result.broken:
                say(f"seed {result.seed}: {result.broken}")
            if not figures.runs % REPORT_EVERY:
                say(f"{figures.runs} runs; to go on from here: --seed {result.seed + 1}")
    say(figures.told(time.monotonic() - begun))
    return int(bool(figures.broken))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--workers", type=int, help="in each swarm; otherwise the seed says how many")
    parser.add_argument("--trace", action="store_true", help="of the first seed alone, print every event")
    return parser.parse_args()


Mapped = Callable[[Iterable[int], int | None], Iterable[Result]]


@contextmanager
def _mapped(jobs: int) -> Iterator[Mapped]:
    def alone(seeds: Iterable[int], workers: int | None) -> Iterator[Result]:
        return (run_seed(seed, workers) for seed in seeds)

    gc.collect()
    gc.freeze()  # what is loaded by now stays, and need not be looked at after every run
    if jobs == 1:
        yield alone
        return
    with Pool(jobs, maxtasksperchild=50) as pool:
        yield lambda seeds, workers: pool.imap(_run_one, zip(seeds, repeat(workers), strict=False), 4)


def _run_one(arguments: tuple[int, int | None]) -> Result:
    return run_seed(*arguments)


def run_seed(seed: int, workers: int | None = None) -> Result:
    """One run, as its seed has it."""
    plan = Plan.drawn(seed, workers=workers)
    gc.disable()  # a run makes little that is not needed to its end
    try:
        return Result(seed, plan.workers, World(plan).run(), "")
    except BrokenLawError as broken:
        return Result(seed, plan.workers, None, str(broken))
    finally:
        gc.enable()


def _trace(seed: int, workers: int | None) -> int:
    trace: list[str] = []
    plan = Plan.drawn(seed, workers=workers)
    say(str(plan))
    broken = ""
    try:
        trace.append(World(plan, trace=trace).run().digest)
    except BrokenLawError as error:
        broken = str(error)
    say("\n".join(trace))
    if broken:
        say(broken)
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
