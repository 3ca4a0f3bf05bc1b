"""What does a decoding step cost on a growing cache, in buffers of fixed size, and compiled?

    python -m benchmarks.decode_step [--models tiny-2-qwen2 random-28m]

Every way writes the same tokens to the same prompts, of two lengths; the ways take turns, and the processor seconds of
all steps count, those of prompts do not. The first batch of a way, in which a step is compiled, is told by itself.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers.utils.logging import disable_progress_bar

from benchmarks.common import arguments_of, keep, summary
from benchmarks.models import model_folder
from swarm.policy.decode import Decoding, choose_decoding
from swarm.policy.forward import DynamicDecoding
from swarm.policy.model import load_model

WAYS = ("dynamic", "static", "compiled")
PROMPTS = ([*range(5, 69)], [*range(5, 45)])
COMPLETIONS = 8


def steps(decoding: Decoding, rows: int, count: int) -> tuple[float, torch.Tensor]:
    """Processor seconds of a step, and the logits behind the last one."""
    prompts = [PROMPTS[index % 2] for index in range(rows // COMPLETIONS)]
    with decoding.region():
        decoder = decoding.begin(prompts, group_size=COMPLETIONS, steps=count)
        began = time.process_time()
        for _ in range(count):
            decoder.forward(decoder.logits.argmax(dim=-1))
        return (time.process_time() - began) / count, decoder.logits.clone()


def measure(folder: Path, sizes: Sequence[int], count: int, repetitions: int) -> dict[str, Any]:
    """One model, with batches of these rows."""
    model = load_model(str(folder), device="cpu", precision="fp32")
    ways: dict[str, Decoding] = {way: choose_decoding(model, way) for way in WAYS[:-1]}
    began = time.perf_counter()
    ways[WAYS[-1]] = choose_decoding(model, WAYS[-1])
    if isinstance(ways[WAYS[-1]], DynamicDecoding):
        raise SystemExit("nothing is compiled here: see the warning above")
    steps(ways[WAYS[-1]], sizes[0], count)
    compiled_within = time.perf_counter() - began
    return {
        "seconds_until_compiled": compiled_within,
        "sizes": [{"rows": rows, **_turns(ways, rows, count, repetitions)} for rows in sizes],
    }


def _turns(ways: Mapping[str, Decoding], rows: int, count: int, repetitions: int) -> dict[str, Any]:
    written = [steps(decoding, rows, count)[1] for decoding in ways.values()]
    turns = [[1e3 * steps(decoding, rows, count)[0] for decoding in ways.values()] for _ in range(repetitions)]
    return {
        "milliseconds_of_a_step": dict(zip(ways, map(summary, zip(*turns, strict=True)), strict=True)),
        "dynamic_over_compiled": summary(turn[0] / turn[-1] for turn in turns),
        "largest_gap": float(max((logits - written[0]).abs().max() for logits in written)),
    }


def main() -> None:
    """Measure all models and sizes."""
    parser = arguments_of(__doc__)
    parser.add_argument("--models", nargs="+", default=["tiny-2-qwen2", "random-28m"])
    parser.add_argument("--rows", type=int, nargs="+", default=[8, 32, 64])
    arguments: argparse.Namespace = parser.parse_args()
    disable_progress_bar()
    repetitions, count = (2, 8) if arguments.quick else (7, 24)
    torch.set_num_threads(arguments.threads)
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in arguments.models:
            folder = model_folder(name, Path(scratch))
            found[name] = measure(folder, arguments.rows, count, repetitions)
            print(name, found[name], flush=True)
    keep("decode_step", {"models": found}, arguments)


if __name__ == "__main__":
    main()
