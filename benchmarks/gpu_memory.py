"""Do the swarms of docs/memory.md fit on a GPU as `swarm plan` says, and what happens where they do not?

    python -m benchmarks.gpu_memory [--cases lora-0.5b-8,...]      needs CUDA and nvidia-smi
    python -m benchmarks.gpu_memory --device cpu --quick           the same code on a CPU, to see that it runs

Each case is a real `swarm up` of random models of an exact shape, three rounds, with the questions and answers of
benchmarks.adapter_memory: I 4, J 4, G 8, prompts as long as the profile `paper` assumes, completions of 256 tokens.

    used         bytes of the device by nvidia-smi, its contexts included: the largest of ten samples a second, less
                 what was in use before
    planned      `swarm plan` of the same settings on the same device
    allocated    the most that torch's tensors of one process took
    halvings     how often a step was repeated with half the batch, of all nodes
    of_card      where a case is held to a smaller card: torch may take no more than that less a context

Cases that are not asked for stay in the card's result file as they are.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.adapter_memory import Case, planned, settings_file
from benchmarks.common import arguments_of, card_name, earlier, keep
from benchmarks.models import model_folder
from benchmarks.swarms import run_swarm
from swarm.planner.plan import CUDA_CONTEXT

PROFILE = "paper"
WARM_UP_ROUNDS = 1
"""In which graphs are recorded."""
TIMES = ("seconds_generate", "seconds_train", "seconds_round")
"""Of a round after those, median over nodes."""
GB = 10**9


@dataclass(frozen=True)
class GpuCase:
    """One swarm, and the card that it is held to."""

    case: Case
    in_process: bool = True
    of_card: int | None = None
    """Bytes; None: all that is there."""
    compiled: bool = False
    """Decoding steps and the training pass are."""


def _paper(model: str, adapter: str, nodes: int, micro_batch_tokens: int) -> Case:
    return Case(model, adapter, nodes, 4, 4, 8, 256, rounds=3, micro_batch_tokens=micro_batch_tokens)


CASES: Mapping[str, GpuCase] = {
    "lora-0.5b-8": GpuCase(_paper("random-0.5b", "lora", 8, 8192)),
    "lora-0.5b-8-compiled": GpuCase(_paper("random-0.5b", "lora", 8, 8192), compiled=True),
    "lora-0.5b-8-of-16GB": GpuCase(_paper("random-0.5b", "lora", 8, 8192), of_card=16 * GB),
    "full-gpt2-4": GpuCase(_paper("random-gpt2", "none", 4, 4096)),
    "full-gpt2-4-of-16GB": GpuCase(_paper("random-gpt2", "none", 4, 4096), of_card=16 * GB),
    "lora-gpt2-4": GpuCase(_paper("random-gpt2", "lora", 4, 8192)),
    "full-gpt2-4-processes": GpuCase(_paper("random-gpt2", "none", 4, 4096), in_process=False),
    "lora-smollm-360m-4": GpuCase(_paper("random-smollm-360m", "lora", 4, 8192)),
    "lora-0.5b-8-processes": GpuCase(_paper("random-0.5b", "lora", 8, 2048), in_process=False),
}
_SMALL = Case("random-2m", "lora", 2, 2, 2, 4, 8, rounds=2)
QUICK = {"lora-2m-2": GpuCase(_SMALL), "lora-2m-2-compiled": GpuCase(_SMALL, compiled=True)}


@dataclass
class Samples:
    """What nvidia-smi said; empty without a GPU."""

    used: list[int] = field(default_factory=list)
    """Bytes of the device."""

    @property
    def peak(self) -> int | None:
        """Bytes: the largest less the first."""
        return max(self.used) - self.used[0] if self.used else None


@contextmanager
def device_watched(*, is_cuda: bool) -> Iterator[Samples]:
    """Sample the memory of the first GPU ten times a second.

    Raises:
        OSError: there is no nvidia-smi.
        TimeoutError: it gave no sample within ten seconds.
    """
    samples = Samples()
    if not is_cuda:
        yield samples
        return
    command = ["nvidia-smi", "--id=0", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-lms", "100"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout

        def collect() -> None:
            assert watch.stdout
            samples.used.extend(int(line) * 2**20 for line in watch.stdout)

        reader = threading.Thread(target=collect)
        reader.start()
        try:
            ends = time.monotonic() + 10
            while not samples.used:
                if time.monotonic() > ends:
                    raise TimeoutError("expected samples of nvidia-smi, got none within ten seconds")
                time.sleep(0.1)
            yield samples
        finally:
            watch.terminate()
            reader.join()


def measure(found: GpuCase, device: str) -> dict[str, Any]:
    """One case's plan and peaks."""
    case, is_cuda = found.case, device.startswith("cuda")
    settings: dict[str, str] = {}
    if found.of_card and is_cuda:
        share = (found.of_card - CUDA_CONTEXT) / torch.cuda.get_device_properties(device).total_memory
        settings["PYTORCH_CUDA_ALLOC_CONF"] = f"per_process_memory_fraction:{share:.4f}"
    if found.compiled:
        settings |= {"SWARM_DECODING": "compiled", "SWARM_COMPILED_TRAINING": "true"}
    with tempfile.TemporaryDirectory() as scratch:
        model = model_folder(case.model, Path(scratch), answering=True)
        config = settings_file(Path(scratch), model, case.micro_batch_tokens, PROFILE)
        words = ["--in-process"] if found.in_process else []
        words += ["--config", str(config), "--profile", PROFILE, "--device", device]
        words += ["--model", str(model), "--round-interval", "3000", *case.flags]
        plan = planned(case, words)
        with device_watched(is_cuda=is_cuda) as samples:
            run = run_swarm(case.nodes, case.rounds, *words, settings=settings, warm_up=0)
    rows, warm = run.rows, [row for row in run.rows if row.round >= WARM_UP_ROUNDS]
    return {
        **{name: getattr(case, name) for name in ("model", "adapter", "nodes", "local", "external", "generations")},
        "in_process": found.in_process,
        "of_card": found.of_card,
        "compiled": found.compiled,
        "planned": plan,
        "used": samples.peak,
        "planned_over_used": plan["bytes"] / samples.peak if samples.peak else None,
        "allocated": max(row.memory_peak or 0 for row in rows),
        "reserved": max(row.memory_reserved or 0 for row in rows),
        "halvings": sum(row.memory_halvings for row in rows),
        "with_gradient": sum(row.grad_norm > 0 for row in rows) / len(rows),
        "drift": max(row.logprob_drift for row in rows),
        **{name: median(getattr(row, name) for row in warm) for name in TIMES},
    }


def main() -> None:
    parser = arguments_of(__doc__, threads=None)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--cases", default=",".join(CASES))
    arguments = parser.parse_args()
    is_cuda = arguments.device.startswith("cuda")
    if is_cuda and not torch.cuda.is_available():
        print("no CUDA device here: nothing is measured, nothing is written", file=sys.stderr)
        return
    cases = QUICK if arguments.quick else {name: CASES[name] for name in arguments.cases.split(",")}
    facts = {"gpu": torch.cuda.get_device_name(arguments.device)} if is_cuda else {}
    kind = card_name(facts["gpu"]) if is_cuda else "cpu"
    done: dict[str, Any] = earlier("gpu_memory", arguments, device=kind).get("cases", {})
    for name, case in cases.items():
        print(name, file=sys.stderr)
        try:
            done[name] = measure(case, arguments.device)
        except RuntimeError as error:
            if not case.of_card:
                raise
            done[name] = {"of_card": case.of_card, "failed": str(error)[-1500:]}  # too small a card is a finding
        print(f"  {done[name]}", file=sys.stderr)
        keep("gpu_memory", {"profile": PROFILE, "cases": done}, arguments, device=kind, **facts)


if __name__ == "__main__":
    main()
