"""Two weak learners with and without a strong generator beside them, over seeds.

    python -m benchmarks.teacher --path DIR [--seeds 5] [--rounds 60] [--teacher-rounds 200]

    alone     two learners, I = 4, J = 4 of each other's groups
    weak      and a generator with the learners' own starting weights, awaited
    strong    and a generator with the weights of a learner after many rounds, awaited

`weak` tells what a third peer is worth that knows nothing more. The learners' cumulative reward is that of their own
questions; all three conditions of a seed ask the learners the same ones. The teacher was trained with a seed that no
run has. Differences are paired by seed, with a bootstrap interval over seeds: of five they say little.

Predicted before the first run: strong above alone by a quarter at least, weak within a tenth of alone.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

from swarm.config import without_settings

MODEL, PROFILE = "tiny-2-qwen2", "tiny-2"
CONDITIONS = ("alone", "weak", "strong")


def swarm(*words: str, **settings: str) -> subprocess.Popen[bytes]:
    """A `swarm` command, quietly."""
    environ = without_settings(os.environ) | settings
    return subprocess.Popen([sys.executable, "-m", "swarm", *words], env=environ, stdout=subprocess.DEVNULL)


def ended(*commands: subprocess.Popen[bytes]) -> None:
    """Wait for all. Raises SystemExit where one fails, and ends the others."""
    try:
        for command in reversed(commands):  # the clock, which is the first, waits for the others
            if command.wait():
                raise SystemExit(f"failed: {command.args!r}")
    finally:
        for command in commands:
            command.terminate()


def train_teacher(folder: Path, rounds: int) -> Path:
    """The model of a learner after many rounds, copied out of the place: a node takes none that lies in one."""
    model = folder / f"teacher-{rounds}"
    if not model.exists():
        of_run = ["--path", str(folder / "place"), "--experiment", f"teacher-{rounds}"]
        ended(swarm("up", *of_run, "--model", MODEL, "--profile", PROFILE, "--nodes", "4", "--rounds", str(rounds),
                    "--seed", "9001", "--in-process"))  # fmt: skip
        ended(swarm("model", "export", "worker-0", *of_run, "--output", str(model)))
    return model


def run(place: Path, condition: str, seed: int, rounds: int, teacher: Path) -> float:
    """Both learners' cumulative reward, summed."""
    name = f"{condition}-s{seed}"
    where, logs = (
        ["--path", str(place), "--experiment", name, "--profile", PROFILE],
        place / "experiments" / name / "logs",
    )
    if not (logs / "learner-1" / "metrics.jsonl").exists():
        expected = "learner-0,learner-1" + ("" if condition == "alone" else ",teacher")
        of_run = ["--seed", str(seed), "--rounds", str(rounds), "--local", "4", "--external", "4"]
        clock = swarm("node", "--role", "coordinator", *where, *of_run, "--expected-workers", expected)
        learners = swarm("node", "--nodes", "2", *where, "--model", MODEL, NODE_ID="learner")
        others = [clock, learners]
        if condition != "alone":
            model = str(teacher) if condition == "strong" else MODEL
            words = ["node", "--role", "generator", "--node-id", "teacher", *where, "--model", model]
            others.append(swarm(*words, SWARM_AWAITED="True"))
        ended(*others)
    rows = [json.loads(line) for file in logs.glob("learner-*/metrics.jsonl") for line in file.open()]
    if condition != "alone":
        taught = sum(row["external_by_peer"].get("teacher", 0) for row in rows)
        print(
            f"  {name}: {taught} of {sum(row['external_groups'] for row in rows)} external groups were the generator's"
        )
    return float(sum(row["my_reward"] for row in rows))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % of the mean of values drawn with replacement."""
    rng = random.Random(1)
    found = sorted(fmean(rng.choices(values, k=len(values))) for _ in range(10_000))
    return found[250], found[9_749]


def main() -> None:
    """All conditions of each seed, then the table; what is there already is not run again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--teacher-rounds", type=int, default=200)
    args = parser.parse_args()
    folder = args.path.absolute()
    teacher, place = train_teacher(folder, args.teacher_rounds), folder / "place"
    found: dict[str, list[float]] = {condition: [] for condition in CONDITIONS}
    for seed in range(1, args.seeds + 1):
        for condition in CONDITIONS:
            found[condition].append(run(place, condition, seed, args.rounds, teacher))
        print(
            f"seed {seed}: " + ", ".join(f"{condition} {found[condition][-1]:.2f}" for condition in CONDITIONS),
            flush=True,
        )
    for condition in CONDITIONS:
        values = found[condition]
        spread = stdev(values) if len(values) > 1 else 0.0
        pairs = zip(values, found["alone"], strict=True)
        over = [100 * (mine / alone - 1) if alone else math.nan for mine, alone in pairs]  # alone may earn nothing
        low, high = interval(over)
        print(
            f"{condition:8} {fmean(values):6.2f} ± {spread:.2f}   over alone {fmean(over):+.1f} % "
            f"({low:+.1f} to {high:+.1f})"
        )


if __name__ == "__main__":
    main()
