"""Do adapters learn as much as full fine-tuning in the same rounds?

    python -m benchmarks.adapter_learning [--quick] [--seeds 301,302,303,304,305]

The demonstration (four nodes, I 4, J 4, G 8, 40 rounds) in one process, once with each side's settings for each seed:
`full` trains all weights, `lora` an adapter, both with the product's defaults. `--side NAME:VARIABLE=VALUE,...`, as
often as wanted, are other sides beside `full`: so rank and rate are chosen, on seeds that are not those reported.

A run's figure is its cumulative reward: mean rewards of the nodes, added up over nodes and rounds. A side's is its mean
over the seeds, which are the unit; the share of `full` is a ratio of means, with the interval of pairs of one seed
(swarm/plugins/study/analysis/effect_size.py). Seeds come in turn and sides within them. What the result file has of the
same model and rounds stays and is not repeated, so that it may be stopped and go on.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, arguments_of, keep
from benchmarks.swarms import run_swarm
from swarm.plugins.study.analysis.effect_size import Effect, improvement, mean_effect

BASELINE, MODEL = "full", "tiny-2-qwen2"
SIDES = {"lora": {"SWARM_ADAPTER": "lora"}}
Sides = dict[str, dict[str, str]]
"""Side -> its settings."""
Runs = dict[str, dict[str, dict[str, float]]]
"""Side -> seed -> figures."""


def side(text: str) -> tuple[str, dict[str, str]]:
    """NAME:VARIABLE=VALUE,VARIABLE=VALUE as a side's name and settings.

    Raises:
        argparse.ArgumentTypeError: it is not of that form.
    """
    name, _, settings = text.partition(":")
    pairs = [pair.partition("=") for pair in settings.split(",") if pair]
    if not name or not all(variable and equals for variable, equals, _ in pairs):
        raise argparse.ArgumentTypeError(f"expected NAME:VARIABLE=VALUE,..., got {text!r}")
    return name, {variable: value for variable, _, value in pairs}


def learned(seed: int, rounds: int, settings: Mapping[str, str]) -> dict[str, float]:
    """One swarm's figures, of all of its rounds."""
    words = ["--in-process", "--seed", str(seed), "--model", MODEL, "--profile", "tiny-2"]
    run = run_swarm(4, rounds, *words, settings=settings, warm_up=0)
    last = [row for row in run.rows if row.round >= rounds - 10]
    return {
        "cumulative_reward": sum(row.my_reward for row in run.rows),
        "last_10": sum(row.my_reward for row in last) / len(last),
        "last_10_tagged": sum(row.answer_tag_rate for row in last) / len(last),
        "cpu_seconds": run.cpu_seconds,
    }


def compared(runs: Runs) -> dict[str, Any]:
    """Of each side: mean and interval of its cumulative reward, and its share of the baseline's, both in one form."""
    found: dict[str, Any] = {}
    for name, of_seeds in runs.items():
        seeds = [seed for seed in of_seeds if seed in runs[BASELINE]]
        own = [of_seeds[seed]["cumulative_reward"] for seed in seeds]
        full = [runs[BASELINE][seed]["cumulative_reward"] for seed in seeds]
        share = improvement(own, full, paired=True)
        found[name] = {
            "seeds": len(seeds),
            "cumulative_reward": interval(mean_effect(own)),
            "share_of_full": interval(Effect(*(None if value is None else 1 + value / 100 for value in share))),
        }
    return found


def interval(effect: Effect) -> dict[str, float | None]:
    """As it is written."""
    return {"mean": effect.value, "low": effect.low, "high": effect.high}


def earlier(file: Path, identity: Mapping[str, Any], sides: Sides) -> tuple[Sides, Runs]:
    """Sides and runs of the result file, but for sides that have other settings now."""
    result = json.loads(file.read_text()) if file.exists() else {}
    if any(result.get(name) != value for name, value in identity.items()):
        return {}, {}
    kept = {name: settings for name, settings in result["sides"].items() if sides.get(name, settings) == settings}
    return kept, {name: result["runs"][name] for name in kept if name in result["runs"]}


def main() -> None:
    parser = arguments_of(__doc__, threads=None)
    parser.add_argument("--seeds", default="301,302,303,304,305")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--side", type=side, action="append", default=[], help="NAME:VARIABLE=VALUE,...")
    arguments = parser.parse_args()
    seeds = arguments.seeds.split(",")
    if arguments.quick:
        seeds, arguments.rounds = seeds[:1], 3
    sides: Sides = {BASELINE: {}, **(dict(arguments.side) or SIDES)}
    identity = {"model": MODEL, "rounds": arguments.rounds}
    folder = arguments.output or RESULTS
    file = folder / "adapter_learning_cpu.json"
    others, runs = ({}, {}) if arguments.quick else earlier(file, identity, sides)
    for seed in seeds:
        for name, settings in sides.items():
            if seed in runs.setdefault(name, {}):
                continue
            runs[name][seed] = learned(int(seed), arguments.rounds, settings)
            print(f"  seed {seed}: {name} {runs[name][seed]}", file=sys.stderr)
            result = {**identity, "sides": others | sides, "shares": compared(runs), "runs": runs}
            keep("adapter_learning", result, arguments)


if __name__ == "__main__":
    main()
