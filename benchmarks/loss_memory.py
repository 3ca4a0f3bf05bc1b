"""How much memory and time does the loss take at a vocabulary of 151,936, chunked against full logits?

    python -m benchmarks.loss_memory [--quick] [--threads 2] [--device cpu]

Both variants turn final hidden states into the log-probs of the chosen tokens and go backward to the hidden states and
the head's weights, fp32. Each run is a process of its own, and the variants take turns.

Counted is the largest extra memory of one forward and backward pass: on the CPU the peak of the resident set (VmHWM,
reset before the pass), on a GPU the allocator's peak, both less what was held before the pass (torch, hidden states,
head weights) and less the gradients of hidden states and weights, which every variant makes and which outlive the pass.
A second pass adds to gradients that are there already, as later micro-batches do: `accumulating` counts that one, where
both variants hold a second copy of the weights' gradient for a moment. Seconds are the mean of the two passes.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.common import arguments_of, keep, ratios, summary
from swarm.policy.logprobs import LinearHead, linear_logprobs

VOCABULARY = 151_936
CASES = {"tiny": (512, 128), "0.5b": (2048, 896)}
"""Completion tokens and hidden size."""
VARIANTS = ("chunked", "full")
MEASURES = ("bytes", "bytes_accumulating", "seconds")


def full_logprobs(hidden_M_D: Tensor, chosen_M: Tensor, weight_V_D: Tensor) -> Tensor:
    """The plain way: all logits at once."""
    logits_M_V = torch.nn.functional.linear(hidden_M_D, weight_V_D)
    return logits_M_V.log_softmax(dim=1).gather(1, chosen_M[:, None]).squeeze(1)


def chunked_logprobs(hidden_M_D: Tensor, chosen_M: Tensor, weight_V_D: Tensor) -> Tensor:
    """The product's way."""
    return linear_logprobs(hidden_M_D, chosen_M, LinearHead(weight_V_D), temperature=1.0)


def child(variant: str, tokens: int, hidden: int, device: str, threads: int, vocabulary: int) -> dict[str, float]:
    """One variant's peak bytes and seconds."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    hidden_M_D = torch.randn(tokens, hidden, device=device, requires_grad=True)
    weight_V_D = torch.nn.Parameter(torch.randn(vocabulary, hidden, device=device) * 0.02)
    chosen_M = torch.randint(vocabulary, (tokens,), device=device)
    logprobs = {"chunked": chunked_logprobs, "full": full_logprobs}[variant]

    def one_pass(rows: int = tokens) -> None:
        torch.autograd.backward(logprobs(hidden_M_D[:rows], chosen_M[:rows], weight_V_D).sum())

    one_pass(1)  # the libraries' own buffers
    for leaf in (hidden_M_D, weight_V_D):
        leaf.grad = None
    extra_bytes = _peak_on_gpu if device.startswith("cuda") else _peak_on_cpu
    fresh, first_s = extra_bytes(one_pass)
    accumulating, second_s = extra_bytes(one_pass)
    assert weight_V_D.grad is not None
    return {
        "bytes": fresh - 4 * (hidden_M_D.numel() + weight_V_D.numel()),
        "bytes_accumulating": accumulating,
        "seconds": (first_s + second_s) / 2,
        "gradient_norm": float(weight_V_D.grad.norm()),
    }


def _peak_on_cpu(work: Callable[[], None]) -> tuple[int, float]:
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts again at what is resident now
    before = _status_bytes("VmRSS")
    begun = time.perf_counter()
    work()
    duration = time.perf_counter() - begun
    return _status_bytes("VmHWM") - before, duration


def _peak_on_gpu(work: Callable[[], None]) -> tuple[int, float]:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    begun = time.perf_counter()
    work()
    torch.cuda.synchronize()
    duration = time.perf_counter() - begun
    return torch.cuda.max_memory_allocated() - before, duration


def _status_bytes(name: str) -> int:
    match = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert match
    return 1024 * int(match[1])


def run(variant: str, case: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The child's result."""
    command = [sys.executable, "-m", "benchmarks.loss_memory", "--child", variant, "--case", case]
    command += ["--device", arguments.device, "--threads", str(arguments.threads)]
    found = subprocess.run(command + ["--quick"] * arguments.quick, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(found.stdout)
    print(f"  {case} {variant}: {result}", file=sys.stderr)
    return result


def compared(case: str, arguments: argparse.Namespace, repetitions: int) -> dict[str, Any]:
    """Both variants of one case in turn."""
    found: dict[str, list[dict[str, Any]]] = {variant: [] for variant in VARIANTS}
    for repetition in range(repetitions):
        for variant in VARIANTS[:: 1 if repetition % 2 == 0 else -1]:
            found[variant].append(run(variant, case, arguments))
    norms = {variant: runs[0]["gradient_norm"] for variant, runs in found.items()}
    if abs(norms["chunked"] - norms["full"]) > 1e-4 * norms["full"]:
        sys.exit(f"the variants do not compute the same gradient: norms {norms}")
    tokens, hidden = CASES[case]
    columns = {what: {variant: [run[what] for run in runs] for variant, runs in found.items()} for what in MEASURES}
    return {
        "tokens": tokens,
        "hidden": hidden,
        **{what: {variant: summary(values) for variant, values in sides.items()} for what, sides in columns.items()},
        "times_less_memory": ratios(columns["bytes"]["full"], columns["bytes"]["chunked"]),
        "times_less_memory_accumulating": ratios(
            columns["bytes_accumulating"]["full"], columns["bytes_accumulating"]["chunked"]
        ),
        "times_as_fast": ratios(columns["seconds"]["full"], columns["seconds"]["chunked"]),
    }


def main() -> None:
    parser = arguments_of(__doc__, threads=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--child", choices=VARIANTS, help=argparse.SUPPRESS)
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    vocabulary = VOCABULARY // 8 if arguments.quick else VOCABULARY
    if arguments.child:
        tokens, hidden = CASES[arguments.case]
        found = child(arguments.child, tokens, hidden, arguments.device, arguments.threads, vocabulary)
        print(json.dumps(found))
        return
    cases = ["tiny"] if arguments.quick else list(CASES)
    results = {case: compared(case, arguments, 1 if arguments.quick else 3) for case in cases}
    device = arguments.device.partition(":")[0]
    keep("loss_memory", {"vocabulary": vocabulary, "cases": results}, arguments, device=device)


if __name__ == "__main__":
    main()
