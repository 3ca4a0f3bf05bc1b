"""Four honest workers with and without an adversary among them: do they learn the same, and is it named?

    python -m tests.adversaries --path FOLDER --seeds 42,1,2 --rounds 40
    python -m tests.adversaries --path FOLDER --seeds 42,1,2 --kinds all      # all at once, and every other attack

Every run is a real swarm: a coordinator, four workers in one process, and the adversaries in another. Runs
that are there already are not run again. Prints, per kind, the honest nodes' cumulative reward against that of the
swarms without it, the largest gap between the mean reward curves (moving average of ten rounds) in units of the spread
over seeds, and who names the adversary in `swarm status --json`. Exit code 1 if one is not named, or the honest nodes
fell behind by more than the noise.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

from swarm.cli.say import say
from swarm.config import without_settings
from swarm.records.rows import read_metrics
from swarm.views.status import StatusReader
from tests.adversaries.kinds import KINDS
from tests.integration.swarms import daemons
from tests.layout import Layout
from tests.unit.views.factories import run_of

HONEST, WINDOW = 4, 10
NONE, ALL = "none", "all"
PATIENCE_S = 1800.0
INTERVAL_S = "20"
"""Some never submit: until they are no longer waited for, a round takes so long. It is the same in all runs."""


def run(path: Path, kind: str, seed: int, rounds: int) -> Layout:
    """One swarm, to its end; the one that is there if it is."""
    layout = Layout(path, f"{kind}-{seed}")
    if (path / f"{layout.experiment}.done").exists():
        return layout
    environment = {
        **without_settings(os.environ),
        "SWARM_PATH": str(path),
        "EXPERIMENT_NAME": layout.experiment,
        "SEED": str(seed),
        "MAX_ROUNDS": str(rounds),
        "NUM_TRAIN_SAMPLES": "4",
        "NUM_TRANSPLANT_TREES": "4",
        "CHECKPOINT_INTERVAL": "0",
        "COORDINATOR_ROUND_INTERVAL": INTERVAL_S,
        "SWARM_EXPECTED_WORKERS": _expected(kind),
    }
    with daemons() as start:
        start("services.coordinator", environment | {"NODE_ROLE": "coordinator"})
        if kind != NONE:
            start("tests.adversaries.stranger", environment, *_strangers(kind))
        if kind == ALL:
            start("tests.adversaries.writer", environment, "worker-0", "worker")
        workers = start("services.workers", environment | {"NODE_ID": "worker"}, "--nodes", str(HONEST))
        code = workers.wait(PATIENCE_S)
    if code:
        raise SystemExit(f"{layout.root}: the honest workers ended with exit code {code}")
    (path / f"{layout.experiment}.done").touch()
    return layout


def _expected(kind: str) -> str:
    """By name where there are names without number, which would fill any count."""
    if kind == ALL:
        return ",".join(f"worker-{number}" for number in range(HONEST))
    return str(HONEST + len(_strangers(kind)))


def _strangers(kind: str) -> tuple[str, ...]:
    return tuple(KINDS) if kind == ALL else (kind,) if kind != NONE else ()


def curve(layout: Layout, rounds: int) -> list[float]:
    """Mean reward of the honest nodes by round; a round that nobody did has that of the round before."""
    rewards: dict[int, list[float]] = {}
    for node, rows in read_metrics(layout.run).items():
        if node.startswith("worker"):
            for row in rows:
                rewards.setdefault(row.round, []).append(row.my_reward)
    found: list[float] = []
    for round_ in range(rounds):
        found.append(fmean(rewards[round_]) if round_ in rewards else (found[-1] if found else 0.0))
    return found


def smooth(values: Sequence[float]) -> list[float]:
    """Mean of the last WINDOW values."""
    return [fmean(values[max(0, i + 1 - WINDOW) : i + 1]) for i in range(len(values))]


def main() -> int:
    options = _options()
    options.path.mkdir(parents=True, exist_ok=True)
    seeds = [int(seed) for seed in options.seeds.split(",")]
    if len(seeds) < 2:
        raise SystemExit("--seeds: expected at least two, separated by commas, for the noise between them")
    curves = {
        kind: [curve(run(options.path, kind, seed, options.rounds), options.rounds) for seed in seeds]
        for kind in (NONE, *options.kinds.split(","))
    }
    failed = False
    base = curves.pop(NONE)
    say(f"{'kind':<8} {'cumulative reward':>24} {'difference':>10} {'noise':>6} {'largest gap / spread':>21}  named")
    say(f"{NONE:<8} {_spread([HONEST * sum(one) for one in base]):>24}")
    for kind, found in curves.items():
        totals, without = ([HONEST * sum(one) for one in some] for some in (found, base))
        difference = fmean(totals) - fmean(without)
        noise = 2 * (stdev(totals) ** 2 / len(totals) + stdev(without) ** 2 / len(without)) ** 0.5
        names = [_named(Layout(options.path, f"{kind}-{seed}"), _strangers(kind)) for seed in seeds]
        hidden = kind == ALL  # among thousands of names those of single adversaries are counted as `*`
        failed |= difference < -noise or not (hidden or all(names))
        say(
            f"{kind:<8} {_spread(totals):>24} {difference:>+10.2f} {noise:>6.2f} {_gap(found, base):>21.2f}  {names[0]}"
        )
    return int(failed)


def _gap(found: list[list[float]], base: list[list[float]]) -> float:
    """Largest distance of the mean smoothed curves, in standard deviations of one run's curve at that round."""
    ours, theirs = ([smooth(one) for one in some] for some in (found, base))
    return max(
        abs(fmean(a) - fmean(b)) / max(stdev(b), stdev(a), 1e-3)
        for a, b in zip(zip(*ours, strict=True), zip(*theirs, strict=True), strict=True)
    )


def _named(layout: Layout, strangers: tuple[str, ...]) -> str:
    """What the status says of the adversaries, empty if nothing of one of them."""
    status = StatusReader(run_of(layout), liveness_timeout=15.0).read(time.time())
    about = [one for one in status.distrusted if one.peer.partition("-")[0] in strangers]
    if {one.peer.partition("-")[0] for one in about} != set(strangers):
        return ""
    reasons = sum((Counter(one.refused) for one in about), Counter[str]())
    nodes = {node for one in about for node in one.refused_by}
    quarantined = {node for one in about for node in one.quarantined_by}
    false = sum(one.false_claims for one in about)
    return f"by {len(nodes)} of {HONEST}, {dict(reasons)}, {false} false claims, quarantined by {len(quarantined)}"


def _spread(values: list[float]) -> str:
    return f"{fmean(values):.2f} ± {stdev(values):.2f}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, required=True)
    parser.add_argument("--seeds", default="42,1,2", help="at least two, separated by commas")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--kinds", default=",".join(KINDS))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
