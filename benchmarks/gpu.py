"""How close does a GPU come to what it can do? A 0.5B-shaped random Qwen2 in bf16.

    python -m benchmarks.gpu [--parts decode train]    needs CUDA; without it, writes nothing and says so
    python -m benchmarks.gpu --device cpu --tiny       the same code on a CPU, to see that it runs

    decode      tokens per second of `generate` (prefill included) against the bandwidth bound: in every step the
                weights, as bf16, and the keys and values of all rows are read once, at the bandwidth of a device copy
    compiled    the same with SWARM_DECODING=compiled, and the seconds of the first batch, in which it is compiled
    train       completion tokens per second of one update, and model-FLOPs utilisation: 6 N per token that passes the
                model (prompts once per group) and 12 x layers x heads x head size per pair of query and key, over the
                vendor's dense bf16 peak where the device is known, else over a measured matrix product
    train-compiled  the same with SWARM_COMPILED_TRAINING, and the seconds of loading, in which it is compiled
    memory      the allocator's peak in each of these
    graphs      CUDA graphs recorded until the warm-up was over, and while measuring, which should be none
    drift       largest |trainer - generator| log-prob, both bf16; and of an fp32 trainer against the bf16 generator
    profile     the five kernels that take the longest in one batch of decoding and in one update, with their share of
                the device's time, calls, and mean time of a call
    rival       transformers' `generate_batch` (continuous batching, paged cache) on the same weights and prompts
    trl         rounds of TRL's GRPOTrainer and of ours, in bf16 from fp32 weights, on the prompts of the training case:
                generate, score nothing, update; and the update alone

Each part is written as soon as it is measured; parts that are not asked for stay in the card's result file as they are.
Random weights: no end-of-text but by chance, so every completion has all its tokens but for a few.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.utils.logging import disable_progress_bar

from benchmarks.common import arguments_of, card_name, earlier, keep, seconds, summary
from benchmarks.models import SHAPES, Shape, parameters, random_model
from benchmarks.trl_side import TrlSide, missing
from benchmarks.workload import Sizes
from swarm.policy.policy import JoinedPolicy, load_policy
from swarm.policy.prompt import encode_prompt
from swarm.policy.settings import GrpoConfig
from swarm.policy.static_decode import GraphedSteps
from swarm.types import Completion, Question, TrainGroup

DENSE_BF16_PEAK = {
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L40": 181e12,
    "L4": 121e12,
    "A10G": 70e12,
    "A10": 125e12,
    "RTX 4090": 165e12,
    "RTX 3090": 71e12,
}
"""FLOP/s without sparsity, by part of the device's name, from the vendor's data sheets; the first that fits counts."""


@dataclass(frozen=True)
class Case:
    """K prompts of P tokens, G completions of T tokens each."""

    prompts: int
    group_size: int
    prompt_tokens: int
    completion_tokens: int

    @property
    def rows(self) -> int:
        return self.prompts * self.group_size


DECODE_CASES = (Case(1, 8, 256, 256), Case(8, 8, 256, 256), Case(32, 8, 256, 256))
TRAIN_CASE = Case(8, 8, 256, 256)
TINY_CASES = (Case(2, 4, 16, 8),)


class Device:
    """Where it runs; a CPU stands in for a GPU with nothing to wait for and no memory to count."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_cuda = name.startswith("cuda")

    def timed(self, work: Callable[[], object]) -> float:
        """Seconds until the device has done it."""

        def finished() -> None:
            work()
            self._wait()

        self._wait()
        return seconds(finished)

    def peak_bytes(self, work: Callable[[], object]) -> int | None:
        """Of everything the allocator held at once, weights included."""
        if not self.is_cuda:
            return None
        torch.cuda.reset_peak_memory_stats()
        work()
        self._wait()
        return torch.cuda.max_memory_allocated()

    def facts(self) -> dict[str, Any]:
        """What it is."""
        if not self.is_cuda:
            return {}
        properties = torch.cuda.get_device_properties(self.name)
        return {
            "gpu": properties.name,
            "gpu_memory": properties.total_memory,
            "compute_capability": f"{properties.major}.{properties.minor}",
            "cuda": torch.version.cuda,
        }

    def copy_bandwidth(self, size: int) -> float:
        """Bytes per second, read and written ones together, of the fastest of ten copies."""
        source = torch.empty(size, dtype=torch.uint8, device=self.name)
        target = torch.empty_like(source)
        return 2 * size / min(self.timed(lambda: target.copy_(source)) for _ in range(10))

    def product_rate(self, size: int) -> float:
        """FLOP/s of the fastest of ten square bf16 matrix products."""
        left = torch.randn(size, size, device=self.name, dtype=torch.bfloat16)
        right = torch.randn_like(left)
        return 2 * size**3 / min(self.timed(lambda: left @ right) for _ in range(10))

    def _wait(self) -> None:
        if self.is_cuda:
            torch.cuda.synchronize()


def decode_bytes(shape: Shape, weights: int, case: Case) -> float:
    """Bytes that decoding must read, bf16: all weights (tied: the embedding once, as the head) and all keys and values.

    The first token comes from the prefill; step t of the others reads P + t positions per row.
    """
    steps = case.completion_tokens - 1
    head_size = shape.hidden // shape.heads
    per_position = 2 * 2 * shape.layers * shape.kv_heads * head_size
    positions = sum(case.prompt_tokens + step for step in range(1, steps + 1))
    return steps * 2.0 * weights + case.rows * per_position * positions


def training_flops(shape: Shape, weights: int, case: Case) -> float:
    """Of one update: forward and backward, without what is computed again."""
    tokens = case.prompts * case.prompt_tokens + case.rows * case.completion_tokens
    prompt_pairs = case.prompts * case.prompt_tokens**2 / 2
    completion_pairs = case.rows * (case.prompt_tokens * case.completion_tokens + case.completion_tokens**2 / 2)
    attention = 12 * shape.layers * shape.hidden * (prompt_pairs + completion_pairs)
    return 6.0 * weights * tokens + attention


def dense_peak(device_name: str) -> float | None:
    """The vendor's figure, or None for a device that the table does not know."""
    return next((peak for part, peak in DENSE_BF16_PEAK.items() if part in device_name), None)


class Runner:
    """Policies of one random model on one device."""

    def __init__(self, folder: Path, shape: Shape, device: Device) -> None:
        self._folder = folder
        self._shape = shape
        self._device = device

    def load(self, case: Case, precision: str, decoding: str = "auto", *, compiled: bool = False) -> JoinedPolicy:
        """A fresh policy that writes completions of the case's length; its training pass compiled, if asked for."""
        config = GrpoConfig(max_new_tokens=case.completion_tokens, decoding=decoding, compiled_training=compiled)
        return load_policy(str(self._folder), config, device=self._device.name, precision=precision)

    def decode(self, case: Case, weights: int, bandwidth: float, repetitions: int, decoding: str) -> dict[str, Any]:
        """Tokens per second, and the share of the bound."""
        policy = self.load(case, "bf16", decoding)
        answers: list[tuple[Completion, ...]] = []

        def generate(seed: int = 0) -> None:
            answers[:] = policy.generate(prompts_of(case), group_size=case.group_size, seed=seed)

        first = self._device.timed(generate)  # warm-up: kernels, graphs, compiling
        generate(1)
        captured, rates = graphs_captured(), []
        for seed in range(repetitions):
            took = self._device.timed(lambda: generate(seed))  # noqa: B023
            rates.append(token_count(answers) / took)
        bound = case.rows * (case.completion_tokens - 1) * bandwidth / decode_bytes(self._shape, weights, case)
        return {
            **vars(case),
            "tokens_per_second": summary(rates),
            "bound_tokens_per_second": bound,
            "share_of_bound": summary(rate / bound for rate in rates),
            "seconds_of_first": first,
            "peak_bytes": self._device.peak_bytes(generate),
            "graphs_captured": captured,
            "graphs_captured_while_measured": graphs_captured() - captured,
        }

    def train(self, case: Case, weights: int, peak: float, repetitions: int, *, compiled: bool) -> dict[str, Any]:
        """Completion tokens per second, model-FLOPs utilisation, memory, drift."""
        began = time.perf_counter()
        policy = self.load(case, "bf16", compiled=compiled)
        loaded = time.perf_counter() - began
        groups = groups_of(case, policy.generate(prompts_of(case), group_size=case.group_size, seed=0))
        drifts = [update(policy, groups) for _ in range(2)]  # the first is before any step
        times = [self._device.timed(lambda: update(policy, groups)) for _ in range(repetitions)]
        peak_bytes = self._device.peak_bytes(lambda: update(policy, groups))
        fp32_drift = update(self.load(case, "fp32"), groups)
        flops = training_flops(self._shape, weights, case)
        tokens = token_count([group.completions for group in groups])
        return {
            **vars(case),
            "seconds_to_load": loaded,
            "completion_tokens_per_second": summary(tokens / took for took in times),
            "model_flops_utilisation": summary(flops / took / peak for took in times),
            "peak_bytes": peak_bytes,
            "drift_bf16": drifts[0],
            "drift_fp32_trainer": fp32_drift,
        }

    def rounds(self, case: Case, count: int) -> tuple[list[float], list[float], list[TrainGroup]]:
        """Seconds of rounds, and of their updates alone; what the last one was trained on."""
        policy, rounds, updates = self.load(case, "bf16"), list[float](), list[float]()
        groups: list[TrainGroup] = []

        def generate(seed: int) -> None:
            groups[:] = groups_of(case, policy.generate(prompts_of(case), group_size=case.group_size, seed=seed))

        for seed in range(count):
            writing = self._device.timed(partial(generate, seed))
            updates.append(self._device.timed(lambda: update(policy, groups)))
            rounds.append(writing + updates[-1])
        return rounds, updates, groups


def prompts_of(case: Case) -> list[str]:
    """Different questions of about P tokens: a blank and a digit are one token."""
    return ["".join(f" {(index + n) % 10}" for n in range(case.prompt_tokens)) for index in range(case.prompts)]


def groups_of(case: Case, answers: Sequence[tuple[Completion, ...]]) -> list[TrainGroup]:
    """All groups informative."""
    advantages = (1.0, -1.0) * (case.group_size // 2)
    return [TrainGroup(prompt, group, advantages) for prompt, group in zip(prompts_of(case), answers, strict=True)]


def update(policy: JoinedPolicy, groups: Sequence[TrainGroup]) -> float:
    """One update; the largest |trainer - generator| log-prob."""
    policy.begin_update(groups)
    return policy.finish_update([]).logprob_drift


def token_count(answers: Sequence[Sequence[Completion]]) -> int:
    """Tokens written."""
    return sum(len(completion.token_ids or ()) for group in answers for completion in group)


def graphs_captured() -> int:
    """CUDA graphs recorded by the policies that are alive."""
    return sum(steps.captures for steps in gc.get_objects() if type(steps) is GraphedSteps)


def release() -> None:
    """Give the memory of dropped policies back."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


LONGEST = 5
"""Kernels that are told of a profile."""
PARTS = ("decode", "compiled", "train", "train-compiled", "profile", "rival", "trl")
OF_OTHERS = ("rival", "trl")
NOT_MEASURED = "not measured: "
"""Begins the line that says why another's part was refused."""


def longest_kernels(device: Device, work: Callable[[], object]) -> list[dict[str, Any]]:
    """The kernels that take most of the device's time; on a CPU the operators."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    activities += [torch.profiler.ProfilerActivity.CUDA] if device.is_cuda else []
    with torch.profiler.profile(activities=activities) as profiled:
        device.timed(work)
    name = "self_device_time_total" if device.is_cuda else "self_cpu_time_total"
    events = [event for event in profiled.key_averages() if getattr(event, name)]
    if device.is_cuda:  # an operator is told beside the kernels that it launched
        events = [event for event in events if event.device_type.name == "CUDA"]
    total = sum(getattr(event, name) for event in events)
    events.sort(key=lambda event: -getattr(event, name))
    return [
        {
            "kernel": event.key[:120],
            "share": getattr(event, name) / total,
            "calls": event.count,
            "microseconds_a_call": getattr(event, name) / event.count,
        }
        for event in events[:LONGEST]
    ]


class Bench:
    """All parts, on one device and one model."""

    def __init__(self, device: Device, folder: Path, *, tiny: bool, repetitions: int) -> None:
        self._device, self._folder, self._repetitions = device, folder, repetitions
        self._shape = SHAPES["random-2m" if tiny else "random-0.5b"]
        self._cases = TINY_CASES if tiny else DECODE_CASES
        self._train_case = TINY_CASES[0] if tiny else TRAIN_CASE
        random_model(self._shape.config(), folder)
        self._runner = Runner(folder, self._shape, device)
        self._weights = parameters(AutoModelForCausalLM.from_pretrained(folder))
        self._bandwidth = device.copy_bandwidth(2**24 if tiny else 2**30)
        product_rate = device.product_rate(256 if tiny else 8192)
        stated = dense_peak(device.facts().get("gpu", ""))
        self.peak = stated or product_rate
        self.facts = {
            "model": "random-2m" if tiny else "random-0.5b",
            "parameters": self._weights,
            "copy_bandwidth": self._bandwidth,
            "product_flops": product_rate,
            "peak_flops": self.peak,
            "peak_flops_source": "data sheet" if stated else "measured product",
        }

    def decode(self, decoding: str = "auto") -> list[dict[str, Any]]:
        """Every decode case."""
        found = []
        for case in self._cases:
            found.append(self._runner.decode(case, self._weights, self._bandwidth, self._repetitions, decoding))
            release()
        return found

    def compiled(self) -> list[dict[str, Any]]:
        """The same, with a compiled step."""
        return self.decode("compiled")

    def train(self, *, compiled: bool = False) -> dict[str, Any]:
        """The training case."""
        return self._runner.train(self._train_case, self._weights, self.peak, self._repetitions, compiled=compiled)

    def train_compiled(self) -> dict[str, Any]:
        """The same, with a compiled training pass."""
        return self.train(compiled=True)

    def profile(self) -> dict[str, Any]:
        """Where a batch of decoding and an update spend the device's time."""
        case = self._train_case
        policy = self._runner.load(case, "bf16")
        prompts = prompts_of(case)
        for seed in range(2):
            answers = policy.generate(prompts, group_size=case.group_size, seed=seed)
        groups = groups_of(case, answers)
        update(policy, groups)
        return {
            **vars(case),
            "decode": longest_kernels(
                self._device, lambda: policy.generate(prompts, group_size=case.group_size, seed=2)
            ),
            "train": longest_kernels(self._device, lambda: update(policy, groups)),
        }

    def rival(self) -> list[dict[str, Any]]:
        """`generate_batch` on every decode case: as many tokens, drawn at temperature 1."""
        model = AutoModelForCausalLM.from_pretrained(self._folder, dtype=torch.bfloat16).to(self._device.name).eval()
        tokenizer = AutoTokenizer.from_pretrained(self._folder)
        found = []
        for case in self._cases:
            prompts = [encode_prompt(tokenizer, one) for one in prompts_of(case) for _ in range(case.group_size)]
            wanted = GenerationConfig(
                max_new_tokens=case.completion_tokens, do_sample=True, eos_token_id=-1, pad_token_id=0
            )
            rates = []
            try:
                for _ in range(1 + self._repetitions):
                    written: dict[str, Any] = {}
                    took = self._device.timed(partial(_write_as_the_rival, model, prompts, wanted, written))
                    rates.append(sum(len(one.generated_tokens) for one in written.values()) / took)
            finally:
                model.destroy_cached_continuous_batching_manager()  # it was made for so many requests
            found.append({**vars(case), "tokens_per_second": summary(rates[1:])})
            release()
        return found

    def trl(self) -> dict[str, Any]:
        """Seconds of a round and of an update, theirs and ours in turn."""
        if problem := missing():
            raise RuntimeError(problem)
        case, count = self._train_case, 1 + self._repetitions
        sizes = Sizes(case.prompts, case.group_size, case.completion_tokens)
        config = GrpoConfig(max_new_tokens=case.completion_tokens)
        questions = [[Question(prompt, origin=None) for prompt in prompts_of(case)] for _ in range(count)]
        rounds, updates, groups = self._runner.rounds(case, count)
        release()
        theirs = TrlSide(self._folder, sizes, config, questions, self._folder, on_gpu=self._device.is_cuda)
        their_rounds = theirs.steps(_half_are_right)()
        release()
        their_updates = [*theirs.training_alone(groups)(), *theirs.training_alone(groups)()]
        times = {"ours": rounds, "ours_update": updates, "trl": their_rounds, "trl_update": their_updates}
        return {**vars(case), **{f"seconds_{name}": summary(found[1:]) for name, found in times.items()}}


def _half_are_right(_: Sequence[Question], texts: Sequence[Sequence[str]]) -> list[float]:
    return [float(place % 2) for group in texts for place in range(len(group))]


def _write_as_the_rival(
    model: Any, prompts: list[list[int]], wanted: GenerationConfig, written: dict[str, Any]
) -> None:
    outputs = model.generate_batch(prompts, generation_config=wanted, progress_bar=False, persistent_manager=True)
    if len(outputs) != len(prompts) or any(one.error for one in outputs.values()):
        raise RuntimeError(f"generate_batch wrote {len(outputs)} of {len(prompts)} completions")
    written.update(outputs)


def main() -> None:
    parser = arguments_of(__doc__, threads=None)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="a small model, to see that the script runs")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    arguments = parser.parse_args()
    disable_progress_bar()
    if arguments.device.startswith("cuda") and not torch.cuda.is_available():
        print("no CUDA device here: nothing is measured, nothing is written", file=sys.stderr)
        return
    device = Device(arguments.device)
    arguments.quick |= arguments.tiny
    facts = device.facts()
    kind = card_name(facts["gpu"]) if facts else "cpu"
    before = earlier("gpu", arguments, device=kind)
    found = {name: part for name, part in before.items() if name in (*PARTS, "measured")}
    when: dict[str, Any] = found.setdefault("measured", {})
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(device, Path(scratch), tiny=arguments.tiny, repetitions=2 if arguments.quick else 5)
        for name in arguments.parts:
            try:
                found[name] = getattr(bench, name.replace("-", "_"))()
            except Exception as error:  # a part that a card or a version refuses is a finding
                if name not in OF_OTHERS:
                    raise
                problem = f"{type(error).__name__}: {error}"[:400]
                print(NOT_MEASURED + problem.replace("\n", " "), file=sys.stderr)
                found[name] = {"not_measured": problem}
            when[name] = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "torch": torch.__version__}
            release()
            keep("gpu", {**bench.facts, **found}, arguments, device=kind, **facts)


if __name__ == "__main__":
    main()
