"""Rounds of two stages: what a swarm learns of answers that it is shown.

    python -m benchmarks.stages --path DIR [--rounds 60] [--nodes 3] [--seeds 3]

For each seed a swarm that shares, and one whose nodes see their own answers alone; each ends with `swarm validate`. Of
the first and last quarter it prints the mean reward of both stages; then, of all seeds' last quarters, that of stage 1
where the prompt shows the true answer and where it does not. A question to which somebody knew the answer is an easier
one, so both are parted by whether the node itself had any reward for it in stage 0. Runs that are there are measured
only.

Predicted before the first run: stage 1 earns less than stage 0, for the embedded models have never seen such a prompt;
groups that are shown the true answer earn at least twice as much as the others.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

ARMS = {"shared": "4", "alone": "0"}
"""J of each."""
ANSWER = re.compile(r"^(?:\d+\. )?Answer: (.*)$", re.MULTILINE)


def run(folder: Path, experiment: str, args: argparse.Namespace, seed: int, external: str) -> str:
    """Run a swarm to its end; says whether it is whole."""
    where = ["--path", str(folder), "--experiment", experiment]
    asked = ["--nodes", str(args.nodes), "--rounds", str(args.rounds), "--stages", "2", "--local", "4"]
    swarm = [sys.executable, "-m", "swarm"]
    up = [*swarm, "up", *where, *asked, "--external", external, "--seed", str(seed)]
    if not (folder / "experiments" / experiment).exists():
        subprocess.run(up, check=True, capture_output=True)
    return "yes" if subprocess.run([*swarm, "validate", *where], capture_output=True).returncode == 0 else "NO"


class Revised(NamedTuple):
    """One group of stage 1."""

    shown: bool
    """Its prompt shows the true answer."""
    before: float
    """Mean reward of the same node and question in stage 0."""
    reward: float


def revisions(root: Path, rounds: range) -> Iterator[Revised]:
    """All groups of stage 1 of these rounds, that have one of stage 0."""
    for number in rounds:
        for file in sorted(root.glob(f"rollouts/round_{number}/stage_1/*.json")):
            before = json.loads((file.parents[1] / "stage_0" / file.name).read_text())["rollouts"]
            rollouts = json.loads(file.read_text())
            for slot, entries in rollouts["rollouts"].items():
                shown = rollouts["groups"][slot]["answer"] in ANSWER.findall(entries[0]["prompt"])
                yield Revised(shown, *(fmean(e["reward"] for e in group) for group in (before[slot], entries)))


def report(found: Mapping[str, Sequence[Revised]]) -> None:
    """What was shown, and what it was worth."""
    print("\n| swarm | own answers of stage 0 | true answer shown | groups | reward in stage 0 | in stage 1 |")
    print("|---|---|---|---|---|---|")
    for arm, of_arm in found.items():
        for some_right, shown in product((False, True), repeat=2):
            some = [one for one in of_arm if (one.before > 0) == some_right and one.shown == shown]
            means = [f"{fmean(values):.3f}" for values in zip(*((o.before, o.reward) for o in some), strict=True)]
            own, yes = "some right" if some_right else "all wrong", "yes" if shown else "no"
            print(f"| {arm} | {own} | {yes} | {len(some)} | {' | '.join(means or ('-', '-'))} |")


def main() -> None:
    """Every seed, both arms."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    print("| seed | swarm | rounds | stage 0 | stage 1 | validates |")
    print("|---|---|---|---|---|---|")
    quarter, last = args.rounds // 4, dict[str, list[Revised]]()
    for seed, arm in product(range(1, args.seeds + 1), ARMS):
        experiment = f"{arm}-{seed}"
        whole = run(args.path.absolute(), experiment, args, seed, ARMS[arm])
        root = args.path / "experiments" / experiment
        for name, rounds in (("first", range(quarter)), ("last", range(args.rounds - quarter, args.rounds))):
            found = list(revisions(root, rounds))
            means = [f"{fmean(values):.3f}" for values in ([o.before for o in found], [o.reward for o in found])]
            print(f"| {seed} | {arm} | {name} {quarter} | {' | '.join(means)} | {whole} |", flush=True)
        last.setdefault(arm, []).extend(found)
    report(last)


if __name__ == "__main__":
    main()
