"""What the trial of a model and the look at its prompt cost a node: from the command to `node.ready`, with and without.

    python -m benchmarks.load_probes            # a model of 110 M parameters, made on the spot; 5 starts of each kind,
                                                # on one thread

The two kinds take turns. Beside that, the trial is timed within each start that has it, and both are timed by
themselves in a process that has loaded the model.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeVar
from unittest.mock import patch

from benchmarks.common import arguments_of, keep
from swarm.cli.say import say
from swarm.config import without_settings

STARTS, TIMES = 5, 5
READY, TRIED = "node.ready", "trial.took"
Tried = TypeVar("Tried")


class Start(NamedTuple):
    """One start of a node, in seconds."""

    ready: float
    processor: float
    """Of all its threads."""
    trial: tuple[float, float] | None
    """The trial within it, by the clock and of processor time; None: it has none."""


def main() -> int:
    options = _options()
    if options.node:
        return _node(options.node, without=options.without)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        parameters = make_model(model, quick=options.quick)
        found: dict[str, list[Start]] = {"with": [], "without": []}
        for number in range(1 if options.quick else STARTS):
            for kind, starts in found.items():
                place = Path(folder) / f"{kind}-{number}"
                starts.append(started(model, place, without=kind == "without", threads=options.threads))
                say(f"{kind} {starts[-1].ready:.2f} s")
        alone = by_themselves(str(model), options.threads)
    keep("load_probes", {"parameters": parameters} | figures(found, alone), options)
    return 0


def figures(found: dict[str, list[Start]], alone: dict[str, list[float]]) -> dict[str, Any]:
    """What the result file holds of these starts, and of the looks by themselves."""
    seconds = {kind: median(start.ready for start in starts) for kind, starts in found.items()}
    processor = {kind: median(start.processor for start in starts) for kind, starts in found.items()}
    trials = [start.trial for start in found["with"] if start.trial is not None]
    return {
        "seconds_to_ready": {kind: [start.ready for start in starts] for kind, starts in found.items()},
        "median_seconds": seconds,
        "difference_seconds": seconds["with"] - seconds["without"],
        "difference_share": seconds["with"] / seconds["without"] - 1,
        "processor_seconds_to_ready": {kind: [start.processor for start in starts] for kind, starts in found.items()},
        "processor_difference_seconds": processor["with"] - processor["without"],
        "processor_difference_share": processor["with"] / processor["without"] - 1,
        "trial_seconds": [by_clock for by_clock, _ in trials],
        "trial_share": median(by_clock for by_clock, _ in trials) / seconds["without"],
        "trial_processor_seconds": [used for _, used in trials],
        "trial_processor_share": median(used for _, used in trials) / processor["without"],
        "processor_seconds_by_themselves": alone,
    }


def _options() -> argparse.Namespace:
    parser = arguments_of(__doc__)
    parser.add_argument("--node", help=argparse.SUPPRESS)
    parser.add_argument("--without", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def make_model(folder: Path, *, quick: bool) -> int:
    """A random model of Qwen2's kind, with a chat template; returns its parameters."""
    from transformers import AutoModelForCausalLM, Qwen2Config

    from tests.unit.policy.chat_templates import QWEN_2_5
    from tests.unit.policy.factories import make_tokenizer

    width, layers = (64, 2) if quick else (768, 12)
    config = Qwen2Config(
        vocab_size=32_000,
        hidden_size=width,
        intermediate_size=width * 8 // 3,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        num_key_value_heads=width // 64,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
    )
    module = AutoModelForCausalLM.from_config(config)
    module.save_pretrained(folder)
    make_tokenizer(chat_template=QWEN_2_5).save_pretrained(folder)
    return int(module.num_parameters())


def started(model: Path, place: Path, *, without: bool, threads: int) -> Start:
    """A node's start as a process, until it says that it is ready."""
    place.mkdir()
    env = without_settings(os.environ) | {
        "GDRIVE_PATH": str(place),
        "EXPERIMENT_NAME": "cost",
        "NODE_ID": "anna",
        "MODEL_NAME": str(model),
        "SWARM_CLOCK": "own",
        "SWARM_PROFILE": "tiny-2",
        "SWARM_THREADS": str(threads),
        "SWARM_DEVICE": "cpu",
        "PYTHONPATH": str(Path(__file__).parents[1]),
    }
    command = [sys.executable, "-m", "benchmarks.load_probes", "--node", str(model)]
    begun, seconds, trial = time.monotonic(), 0.0, None
    used = processor_of_children()
    said = []
    with subprocess.Popen(
        command + ["--without"] * without, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                said.append(line)
                if line.startswith(TRIED):
                    trial = (float(line.split()[1]), float(line.split()[2]))
                if READY in line:
                    seconds = time.monotonic() - begun
                    break
        finally:
            process.kill()
    if not seconds:
        raise RuntimeError("".join(said[-20:]))
    return Start(seconds, processor_of_children() - used, trial)


def processor_of_children() -> float:
    """Seconds of those that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _node(model: str, *, without: bool) -> int:
    """The child: `swarm node`, where asked for without trial and look. Torch is imported when the node would do it."""
    from swarm.cli.main import run
    from swarm.node.process import wiring

    load = wiring._load_policy

    def loading(*given: Any) -> Any:
        from swarm.policy import policy
        from swarm.policy.load_probe import tried_out

        instead: dict[str, Any] = (
            {"tried_out": lambda model, **_: model, "suited": lambda _name, _tokenizer, asking, _not_embedded: asking}
            if without
            else {"tried_out": timed(tried_out)}
        )
        with patch.multiple(policy, **instead):  # raises where the policy has no such name
            return load(*given)

    with patch.object(wiring, "_load_policy", loading):
        return run(["node"])


def timed(trial: Callable[..., Tried]) -> Callable[..., Tried]:
    """The trial, which says how long it took."""

    def told(*model: Any, **options: Any) -> Tried:
        begun, used = time.monotonic(), time.process_time()
        tried = trial(*model, **options)
        print(TRIED, time.monotonic() - begun, time.process_time() - used, flush=True)
        return tried

    return told


def by_themselves(model: str, threads: int) -> dict[str, list[float]]:
    """Seconds of processor time of each in this process, the first time and later ones."""
    import torch

    from swarm.policy.asked_well import suited
    from swarm.policy.load_probe import tried_out
    from swarm.policy.model import load_model

    torch.set_num_threads(threads)
    loaded = load_model(model, device="cpu")
    found: dict[str, list[float]] = {"trial": [], "look": []}
    for _ in range(TIMES):
        begun = time.process_time()
        tried_out(loaded)
        found["trial"].append(time.process_time() - begun)
        begun = time.process_time()
        suited(loaded.name, loaded.tokenizer, not_embedded=loaded.not_embedded)
        found["look"].append(time.process_time() - begun)
    return found


if __name__ == "__main__":
    sys.exit(main())
