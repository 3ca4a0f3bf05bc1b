"""How does the cost of a round grow with its sizes, and with the number of nodes?

    python -m benchmarks.scaling [--quick] [--threads 1] [--nodes 1,2,4,8]

Sizes: one policy in this process generates its own half of the groups and trains on all of them (I = J = half), for a
random Qwen2 of 2 M parameters whose prompts and completions have the lengths asked for. One size grows at a time, the
others stay at the values in BASE. Repetitions pass over all sizes in turn, forwards and backwards.
Nodes: real swarms of `swarm up` on this machine, wall-clock per round, of the model that it takes by itself.

Reported is the exponent b of cost = a x size^b, fitted on logarithms: 1 is linear, less is better. A plot with all
curves goes beside the result file as scaling.png and scaling.svg.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers.utils.logging import disable_progress_bar

from benchmarks.common import RESULTS, arguments_of, keep, log_slope, seconds, summary
from benchmarks.models import model_folder
from benchmarks.swarms import SwarmRun, run_swarm
from swarm.policy.policy import JoinedPolicy, load_policy
from swarm.policy.settings import GrpoConfig
from swarm.types import TrainGroup

MODEL = "random-2m"
ENDED_EARLY = 0.02
"""A random model writes end-of-text too, one token in 8192: so much less may be trained on than was asked for."""
NODE_ROUNDS = 10


@dataclass(frozen=True)
class RoundSize:
    """What makes a round dear."""

    groups: int = 4
    """I + J."""
    group_size: int = 8
    prompt_tokens: int = 32
    completion_tokens: int = 16


BASE = RoundSize()
SWEEPS: dict[str, Sequence[int]] = {
    "groups": (4, 8, 16, 32),
    "group_size": (4, 8, 16, 32),
    "prompt_tokens": (32, 64, 128, 256),
    "completion_tokens": (8, 16, 32, 64),
}
TITLES = {
    "groups": "groups, I + J",
    "group_size": "completions per group, G",
    "prompt_tokens": "prompt tokens",
    "completion_tokens": "completion tokens",
    "nodes": "nodes",
}


def round_seconds(folder: Path, size: RoundSize, threads: int) -> float:
    """One round after a first one that warms up."""
    config = GrpoConfig(max_new_tokens=size.completion_tokens)
    policy = load_policy(str(folder), config, threads=threads, device="cpu")
    _one_round(policy, size)
    return seconds(lambda: _one_round(policy, size))


def _one_round(policy: JoinedPolicy, size: RoundSize) -> None:
    half = size.groups // 2
    prompts = [" 0" * (size.prompt_tokens - index % 4) for index in range(half)]  # one token each
    answers = policy.generate(prompts, group_size=size.group_size, seed=0)
    advantages = (1.0, -1.0) * (size.group_size // 2)
    groups = [TrainGroup(prompt, group, advantages) for prompt, group in zip(prompts, answers, strict=True)]
    policy.begin_update(groups)
    report = policy.finish_update(groups)  # as if they were peers': what is computed does not depend on it
    expected = size.groups * size.group_size * size.completion_tokens
    if not (1 - ENDED_EARLY) * expected <= report.trained_tokens <= expected:
        raise RuntimeError(f"expected about {expected} trained tokens, got {report.trained_tokens}")


def sweep_sizes(folder: Path, sweeps: dict[str, Sequence[int]], repetitions: int, threads: int) -> dict[str, Any]:
    """Seconds and slope of every sweep."""
    cases = [(name, value) for name, values in sweeps.items() for value in values]
    found: dict[tuple[str, int], list[float]] = {case: [] for case in cases}
    for repetition in range(repetitions):
        for name, value in cases[:: 1 if repetition % 2 == 0 else -1]:
            found[name, value].append(round_seconds(folder, replace(BASE, **{name: value}), threads))
        print(f"  repetition {repetition} done", file=sys.stderr)
    return {
        name: curve(values, [found[name, value] for value in values])
        | {"fixed": {other: getattr(BASE, other) for other in sweeps if other != name}}
        for name, values in sweeps.items()
    }


def sweep_nodes(counts: Sequence[int], rounds: int, repetitions: int) -> dict[str, Any]:
    """Wall-clock per round of real swarms, and what sharing and waiting take of it."""
    runs: dict[int, list[SwarmRun]] = {nodes: [] for nodes in counts}
    for repetition in range(repetitions):
        for nodes in counts[:: 1 if repetition % 2 == 0 else -1]:
            runs[nodes].append(run_swarm(nodes, rounds))
            print(f"  {nodes} nodes: {runs[nodes][-1].seconds_per_round:.3f} s per round", file=sys.stderr)
    result = curve(counts, [[run.seconds_per_round for run in runs[nodes]] for nodes in counts])
    result["seconds_sharing"] = [summary(run.median("seconds_sharing") for run in runs[nodes]) for nodes in counts]
    return result


def curve(sizes: Sequence[int], costs: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Costs by size, and the slope of each repetition.

    Args:
        costs: seconds of every repetition, for each size.
    """
    by_repetition = list(zip(*costs, strict=True))
    return {
        "sizes": list(sizes),
        "seconds": [summary(values) for values in costs],
        "slope": summary(log_slope(sizes, repetition) for repetition in by_repetition) if len(sizes) > 1 else None,
    }


def plot(curves: dict[str, Any], folder: Path) -> None:
    """All curves on logarithmic axes, with a linear one to compare."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.2 * len(curves), 3.2), layout="constrained")
    for axes, (name, found) in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves.items(), strict=True):
        sizes, medians = found["sizes"], [point["median"] for point in found["seconds"]]
        low = [point["median"] - point["min"] for point in found["seconds"]]
        high = [point["max"] - point["median"] for point in found["seconds"]]
        axes.errorbar(sizes, medians, yerr=[low, high], marker="o", capsize=3, label="measured")
        axes.plot(sizes, [medians[0] * size / sizes[0] for size in sizes], "--", color="grey", label="linear")
        axes.set(xscale="log", yscale="log", xlabel=TITLES[name], ylabel="seconds per round")
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
        slope = found["slope"]["median"] if found["slope"] else float("nan")
        axes.set_title(f"exponent {slope:.2f}")
        axes.legend()
    folder.mkdir(parents=True, exist_ok=True)
    for suffix in ("png", "svg"):
        figure.savefig(folder / f"scaling.{suffix}", dpi=120, metadata={"Date": None} if suffix == "svg" else None)


def main() -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--nodes", default="1,2,4,8", help="sizes of the real swarms; empty for none")
    arguments = parser.parse_args()
    disable_progress_bar()
    torch.set_num_threads(arguments.threads)
    counts = [int(count) for count in arguments.nodes.split(",") if count]
    sweeps, rounds, repetitions = SWEEPS, NODE_ROUNDS, 3
    if arguments.quick:
        sweeps, rounds, repetitions = {name: values[:2] for name, values in SWEEPS.items()}, 5, 1
        counts = counts[:2]
    with tempfile.TemporaryDirectory() as scratch:
        curves = sweep_sizes(model_folder(MODEL, Path(scratch)), sweeps, repetitions, arguments.threads)
    if counts:
        curves["nodes"] = sweep_nodes(counts, rounds, 1 if arguments.quick else 2)
    keep("scaling", {"model": MODEL, "curves": curves}, arguments)
    folder = arguments.output or (None if arguments.quick else RESULTS)
    if folder:
        plot(curves, folder)


if __name__ == "__main__":
    main()
