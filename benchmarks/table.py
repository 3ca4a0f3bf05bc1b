"""The benchmark table of docs/speed.md, made of the result files and of nothing else.

python -m benchmarks.table --write docs/speed.md     put it between the markers
python -m benchmarks.table --check docs/speed.md     exit 1 if it is not what stands there
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS

FULL_ROUND_TARGETS = {"random-5m": "at least 1", "random-67m": "at least 1.5"}
BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
HEADER = "| what | target | measured | on |\n|---|---|---|---|\n"
Result = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    target: str
    measured: str


def spread(found: dict[str, float], digits: int = 2) -> str:
    """`median (min to max)`."""
    median, low, high = (f"{found[name]:.{digits}f}" for name in ("median", "min", "max"))
    return median if low == high else f"{median} ({low} to {high})"


def size(count: float) -> str:
    """Bytes in the unit that suits them."""
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def full_round_rows(result: Result) -> Iterator[Row]:
    """Completions per second, and how many times the others'."""
    for model, found in result["models"].items():
        full, train = found["full_round"], found["train"]
        rates, speedup = full["completions_per_second"], full["speedup"]
        yield Row(f"full round, {model}: completions per second", "", spread(rates["swarm"], 0))
        yield Row("— over the naive way", "at least 4", spread(speedup["swarm_over_naive"]))
        trl, missing = speedup.get("swarm_over_trl"), found["trl_not_measured"]
        yield Row("— over TRL's GRPOTrainer", "at least 2.5", spread(trl) if trl else f"not measured: {missing}")
        realistic = [
            f"{other} {spread(speedup[f'swarm_realistic_over_{name}'])}"
            for name, other in (("naive", "naive"), ("trl", "TRL"))
            if f"swarm_realistic_over_{name}" in speedup
        ]
        share = f"{result['realistic_share']:.0%}"
        yield Row(f"— the same with {share} of the groups informative, not all", "", ", ".join(realistic))
        alone = [f"{name.rpartition('_')[2]} {spread(ratio)}" for name, ratio in train["speedup"].items()]
        yield Row("— training alone, identical completions, over", "", ", ".join(alone).replace("trl", "TRL"))


def loss_memory_rows(result: Result) -> Iterator[Row]:
    """Memory and time of the loss against full logits."""
    for found in result["cases"].values():
        sizes = f"{found['tokens']} tokens, hidden {found['hidden']}"
        memory = " instead of ".join(size(found["bytes"][variant]["median"]) for variant in ("chunked", "full"))
        what = f"loss at vocabulary {result['vocabulary']:,}, {sizes}: times less peak memory"
        yield Row(what, "at least 10", f"{spread(found['times_less_memory'], 0)}: {memory}")
        yield Row("— times as fast as full logits", "at least 1", spread(found["times_as_fast"]))


def sharing_overhead_rows(result: Result) -> Iterator[Row]:
    """A worker's round over the computing alone."""
    for model, found in result["models"].items():
        for staleness in (0, 1):
            ratio = found[f"staleness_{staleness}"]
            measured = f"{spread(ratio['ratio'], 3)}; 1 / busy {spread(ratio['one_over_busy'], 3)}"
            what = f"round with sharing over computing alone, {model}, staleness {staleness}"
            yield Row(what, "at most 1.03", measured)


def scaling_rows(result: Result) -> Iterator[Row]:
    """Exponents."""
    titles = {
        "groups": "I + J",
        "group_size": "G",
        "prompt_tokens": "prompt length",
        "completion_tokens": "completion length",
        "nodes": "nodes on this machine",
    }
    for name, found in result["curves"].items():
        sizes = f"{found['sizes'][0]} to {found['sizes'][-1]}"
        what = f"growth of a round's cost with {titles[name]}, {sizes}: exponent"
        yield Row(what, "at most 1", spread(found["slope"]))


def in_process_rows(result: Result) -> Iterator[Row]:
    """One process against several."""
    sides, processes = result["sides"], result.get("processes", result["nodes"])
    forms: dict[str, tuple[str, Callable[[dict[str, float]], str]]] = {
        "rounds_per_minute": ("rounds per minute", lambda found: spread(found, 0)),
        "peak_bytes": ("peak memory (PSS)", lambda found: size(found["median"])),
    }
    for name, (title, form) in forms.items():
        measured = " against ".join(form(sides[side][name]) for side in ("one_process", "processes"))
        yield Row(f"{result['nodes']} nodes in one process against {processes} processes: {title}", "", measured)
    yield Row("— times as many rounds, pair by pair", "", spread(result["times_as_many_rounds"]))


def adapter_learning_rows(result: Result) -> Iterator[Row]:
    """What adapters learn beside all weights."""
    for name, found in result["shares"].items():
        share, own = found["share_of_full"], found["cumulative_reward"]
        title = f"{result['model']}, {result['rounds']} rounds, cumulative reward of {found['seeds']} seeds"
        if name == "full":
            yield Row(f"{title}: all weights, by default at 3e-4", "", f"{between(own)}")
        else:
            settings = " ".join(f"{key}={value}" for key, value in result["sides"][name].items())
            target = "at least 0.95 of it" if "SWARM_ADAPTER" in settings else ""
            yield Row(f"— `{settings}`", target, f"{between(own)}: {between(share)} of it")


def adapter_memory_rows(result: Result) -> Iterator[Row]:
    """Peaks, and what the plan said."""
    for name, found in result["cases"].items():
        trained = "adapters" if "lora" in name else "all weights"
        batches = ", micro-batches of all rows" if "whole" in name else ""
        what = f"peak memory, {found['nodes']} x {found['model']}, {trained}{batches}"
        measured = f"{size(found['anonymous'])}, planned {size(found['planned']['bytes'])}"
        yield Row(what, "planned within 15 %", f"{measured}: {found['planned_over_anonymous']:.2f}")
    cases = result["cases"]
    if {"lora-100m-8", "full-100m-1"} <= cases.keys():
        ratio = cases["lora-100m-8"]["anonymous"] / cases["full-100m-1"]["anonymous"]
        yield Row("— eight of random-100m with adapters over one with all weights", "at most 1.6", f"{ratio:.2f}")


def adapter_speed_rows(result: Result) -> Iterator[Row]:
    """Times as fast, by the clock and by processor time."""
    for model, found in result["models"].items():
        for name, what, target in (
            ("together_over_in_turn", "eight nodes generate together over one after the other", "at least 1.3"),
            ("lora_over_full", "a full round with adapters over all weights", FULL_ROUND_TARGETS.get(model, "")),
        ):
            yield Row(f"{model}: {what}, times as fast", target, clocks(found, name))
    for model, found in result["trl"].items():
        what = f"{model}: a round of one of eight nodes with adapters over TRL's with peft, times as fast"
        yield Row(what, "at least 5", clocks(found, "all_over_trl"))
        yield Row("— of a node alone", "", clocks(found, "one_over_trl"))


def between(found: dict[str, float | None]) -> str:
    """`mean (low to high)` of an interval."""
    mean, low, high = found["mean"], found["low"], found["high"]
    return f"{mean:.3g}" if low is None else f"{mean:.3g} ({low:.3g} to {high:.3g})"


def clocks(found: Result, name: str) -> str:
    """A ratio by either clock."""
    return "; ".join(
        f"{spread(found[clock]['times_as_fast'][name])} {title}"
        for clock, title in (("processor", "by processor time"), ("wall", "by the clock"))
    )


def genrl_gap_rows(result: Result) -> Iterator[Row]:
    """Gradients and displacements beside genrl's."""
    gaps = [f"{found['gap']:.2g}" for found in result["gradient"].values()]
    empty = result["empty_rounds"]
    moved = {name: ", ".join(f"{length:.3g}" for length in empty[name]) for name in ("genrl_all_right", "step", "skip")}
    genrl = f"genrl {result['genrl']['release'] or ''}".strip()
    yield Row(
        f"gradient of one batch, relative gap to {genrl}'s with all its differences undone", "at most 1e-5", gaps[-1]
    )
    yield Row("— to its own; with completions padded on the right; and with end-of-text", "", "; ".join(gaps[:-1]))
    what = f"— {len(empty['step'])} rounds without signal move the weights on by so many steps"
    yield Row(what, f"genrl's {moved['genrl_all_right']}", f"`step` {moved['step']}; `skip` {moved['skip']}")


def gpu_rows(result: Result) -> Iterator[Row]:
    """Shares of what the device can do."""
    card = result["machine"]["gpu"]
    for found in result.get("decode", ()):
        rate, share = spread(found["tokens_per_second"], 0), spread(found["share_of_bound"])
        sizes = f"{found['prompts']} x {found['group_size']} completions"
        what = f"{card}, {result['model']} bf16, {sizes}: decode tokens/s"
        yield Row(what, "", f"{rate}, {share} of the bandwidth bound")
    if compiled := result.get("compiled"):
        rates = "; ".join(spread(found["tokens_per_second"], 0) for found in compiled)
        first = max(found["seconds_of_first"] for found in compiled)
        yield Row("— with a compiled step, the same cases", "", f"{rates}; compiled within {first:.0f} s")
    if isinstance(rivals := result.get("rival"), list):
        rates = "; ".join(spread(found["tokens_per_second"], 0) for found in rivals)
        yield Row("— transformers' `generate_batch`, the same cases", "", rates)
    if found := result.get("train"):
        rate, share = spread(found["completion_tokens_per_second"], 0), spread(found["model_flops_utilisation"])
        yield Row("— training tokens/s", "", f"{rate}, model-FLOPs utilisation {share}")
        if found["peak_bytes"]:
            yield Row("— peak memory of training", "", size(found["peak_bytes"]))
        drift = f"{found['drift_bf16']:.3f}; of an fp32 trainer {found['drift_fp32_trainer']:.3f}"
        yield Row("— largest drift of the bf16 generator, nats", "", drift)
    if found := result.get("train-compiled"):
        rate, share = spread(found["completion_tokens_per_second"], 0), spread(found["model_flops_utilisation"])
        said = f"{rate}, model-FLOPs utilisation {share}; loaded within {found['seconds_to_load']:.0f} s"
        yield Row("— training tokens/s, compiled", "", said)
    found = result.get("trl")
    if found and "seconds_trl" in found:
        said = f"{spread(found['seconds_trl'])} and {spread(found['seconds_ours'])}"
        yield Row("— seconds of a round of TRL's GRPOTrainer and of ours", "", said)
        said = f"{spread(found['seconds_trl_update'])} and {spread(found['seconds_ours_update'])}"
        yield Row("— — of its update", "", said)


def waiting_rows(result: Result) -> Iterator[Row]:
    """What a node takes that waits, beside an earlier commit where one was measured."""
    trees = result["processor_seconds_a_minute"]
    for role in ("worker", "coordinator"):
        sides = [f"{spread(trees[tree][role])}{said}" for tree, said in _now_and_before(trees, result["own"])]
        yield Row(f"a {role} that waits: processor seconds a minute", "at most 0.3", "; ".join(sides))


def decode_step_rows(result: Result) -> Iterator[Row]:
    """A decoding step with SWARM_DECODING=compiled beside the default of processors."""
    for name, found in result["models"].items():
        ratios = ", ".join(f"{spread(one['dynamic_over_compiled'])} at {one['rows']}" for one in found["sizes"])
        within = f"compiled within {found['seconds_until_compiled']:.0f} s"
        what = f"{name}: decoding steps, compiled over a growing cache, times as fast"
        yield Row(what, "", f"{ratios} rows; {within}")


def demonstration_rows(result: Result, beside: str = "") -> Iterator[Row]:
    """The demonstration from the prompt to the end, beside an earlier commit where one was measured."""
    for name, what, target, digits in (
        ("seconds", f"the demonstration{beside}, from the prompt to the end: seconds", "half of before", 1),
        ("seconds_of_rounds", "— of which rounds", "", 1),
        ("processor_seconds", "— processor seconds", "", 1),
        ("peak_memory_mb", "— memory of all processes (PSS), MB", "at most 700", 0),
    ):
        sides = [
            f"{spread(result['trees'][tree][name], digits)}{said}"
            for tree, said in _now_and_before(result["trees"], result["own"])
        ]
        yield Row(what, target, "; ".join(sides))


busy_demonstration_rows = partial(demonstration_rows, beside=" beside two busy loops")


def _now_and_before(trees: Mapping[str, Any], own: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields the name of each tree that was measured, this one first, and what to say behind its figures."""
    for tree in sorted(trees, key=lambda name: name not in own):
        yield tree, "" if tree in own or len(trees) == 1 else " before"


@dataclass(frozen=True)
class Benchmark:
    """A result file and what it becomes; of several cards, a file each."""

    name: str
    device: str
    """As in the file's name; `*` stands for anything."""
    title: str
    """For the row that says that there is no result."""
    rows: Callable[[Result], Iterator[Row]]
    reason: str = "no result file"

    def lines(self, folder: Path) -> Iterator[str]:
        """Its part of the table."""
        files = sorted(folder.glob(f"{self.name}_{self.device}.json"))
        if not files:
            yield f"| {self.title} | | not measured: {self.reason} | |\n"
        for file in files:
            result = json.loads(file.read_text())
            for number, row in enumerate(self.rows(result)):
                where = f"[{place(result)}](../benchmarks/results/{file.name})" if number == 0 else ""
                yield f"| {row.what} | {row.target} | {row.measured} | {where} |\n"


BENCHMARKS = (
    Benchmark("full_round", "cpu", "full round", full_round_rows),
    Benchmark("loss_memory", "cpu", "loss at vocabulary 151,936", loss_memory_rows),
    Benchmark("sharing_overhead", "cpu", "round with sharing over computing alone", sharing_overhead_rows),
    Benchmark("scaling", "cpu", "growth of a round's cost", scaling_rows),
    Benchmark("in_process", "cpu", "8 nodes in one process against several", in_process_rows),
    Benchmark("genrl_gap", "cpu", "gradient of one batch beside genrl's", genrl_gap_rows),
    Benchmark("adapter_learning", "cpu", "adapters: cumulative reward beside all weights", adapter_learning_rows),
    Benchmark("adapter_memory", "cpu", "adapters: peak memory and plan", adapter_memory_rows),
    Benchmark("adapter_speed", "cpu", "adapters: times as fast", adapter_speed_rows),
    Benchmark("decode_step", "cpu", "decoding steps, compiled", decode_step_rows),
    Benchmark("waiting", "cpu", "a node that waits", waiting_rows),
    Benchmark("demonstration", "cpu", "the demonstration", demonstration_rows),
    Benchmark("demonstration_busy_2", "cpu", "the demonstration beside two busy loops", busy_demonstration_rows),
    Benchmark("gpu", "cuda_*", "GPU: decode and training tokens/s, memory", gpu_rows, "no GPU was at hand"),
)


def place(result: Result) -> str:
    """The device in a few words."""
    machine = result["machine"]
    threads = f", {result['threads']} thread{'s' * (result['threads'] > 1)}" if result["threads"] else ""
    return str(machine.get("gpu") or f"{machine['cpu']}, {machine['cores']} cores") + threads


def table(folder: Path = RESULTS) -> str:
    """The whole table in Markdown."""
    return HEADER + "".join(line for benchmark in BENCHMARKS for line in benchmark.lines(folder))


def replaced(document: str, new: str) -> str:
    """The document with what stands between its markers replaced.

    Raises:
        ValueError: it does not hold each marker once, the first one first.
    """
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end) or BEGIN in rest or END in after:
        raise ValueError(f"expected {BEGIN} and then {END}, once each")
    return f"{before}{begin}\n{new}{end}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", type=Path, metavar="FILE")
    action.add_argument("--check", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    file: Path = arguments.write or arguments.check
    document = file.read_text()
    wanted = replaced(document, table())
    if arguments.write:
        file.write_text(wanted)
    elif document != wanted:
        sys.exit(f"the table in {file} is not that of the result files: python -m benchmarks.table --write {file}")


if __name__ == "__main__":
    main()
