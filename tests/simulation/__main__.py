"""Run whole swarms in virtual time, many seeds of them, and see whether any law is broken.

    python -m tests.simulation --runs 10000 --seed 0 --jobs 2           # seeds 0 to 9999
    python -m tests.simulation --runs 10000 --keep progress.json        # stopped and started again, it goes on
    python -m tests.simulation --seed 4711 --runs 1 --trace             # one of them again, event by event

Ends with 1 if a law was broken; says which seeds did it, and how each is seen again.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import repeat
from multiprocessing import Pool
from pathlib import Path
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
    """What came of all seeds from `first` up to `next`, which is not among them."""

    first: int
    next: int
    seconds: float = 0.0
    """Of all attempts, on the wall."""
    virtual_seconds: float = 0.0
    events: int = 0
    rows: int = 0
    rollouts: int = 0
    fewest: int = 10**9
    most: int = 0
    broken: list[str] = field(default_factory=list)
    injected: dict[str, int] = field(default_factory=dict)

    def add(self, result: Result) -> None:
        self.next = result.seed + 1
        self.fewest, self.most = min(self.fewest, result.workers), max(self.most, result.workers)
        if result.broken:
            self.broken.append(f"seed {result.seed}: {result.broken}")
        if outcome := result.outcome:
            self.virtual_seconds += outcome.seconds
            self.events += outcome.events
            self.rows += outcome.rows
            self.rollouts += outcome.rollouts
            self.injected = dict(Counter(self.injected) + outcome.injected)

    def __str__(self) -> str:
        runs = self.next - self.first
        faults = "\n".join(f"  {kind:22} {number:9}" for kind, number in sorted(self.injected.items()))
        return (
            f"{runs} runs of {self.fewest} to {self.most} workers, {len(self.broken)} with a broken law\n"
            f"{self.virtual_seconds / 3600:.1f} virtual hours, {self.events} events, {self.rows} rounds of nodes, "
            f"{self.rollouts} rollout files\n"
            f"{self.seconds:.0f} s, {self.seconds / max(1, runs):.3f} s per run\nfaults injected:\n{faults}"
        )


def main() -> int:
    options = _options()
    if options.trace:
        return _trace(options.seed, options.workers)
    figures = _figures_before(options)
    begun, before = time.monotonic(), figures.seconds
    with _mapped(options.jobs) as mapped:
        for result in mapped(range(figures.next, options.seed + options.runs), options.workers):
            figures.add(result)
            figures.seconds = before + time.monotonic() - begun
            if result.broken:
                say(figures.broken[-1])
            done = figures.next - figures.first
            if not done % REPORT_EVERY:
                say(f"{done} runs, {figures.seconds:.0f} s; to go on from here: --seed {figures.next}")
                _keep(options, figures)
    _keep(options, figures)
    say(str(figures))
    return int(bool(figures.broken))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--workers", type=int, help="in each swarm; otherwise the seed says how many")
    parser.add_argument("--keep", type=Path, help="a file for what is done, by which the same command goes on")
    parser.add_argument("--trace", action="store_true", help="of the first seed alone, print every event")
    return parser.parse_args()


def _figures_before(options: argparse.Namespace) -> Figures:
    if options.keep and options.keep.exists():
        kept = Figures(**json.loads(options.keep.read_text()))
        if kept.first == options.seed:
            return kept
    return Figures(options.seed, options.seed)


def _keep(options: argparse.Namespace, figures: Figures) -> None:
    if options.keep:
        draft = options.keep.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(figures)))
        draft.replace(options.keep)


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
