"""What the trial of a model and the look at its prompt cost a node: from the command to `node.ready`, with and without.

    python -m benchmarks.load_probes            # a model of 110 M parameters, made on the spot; 5 starts of each kind

The two kinds take turns. Beside that, both are timed by themselves in a process that has loaded the model.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.common import arguments_of, keep
from swarm.cli.say import say
from swarm.config import without_settings

STARTS, TIMES = 5, 5
READY = "node.ready"


def main() -> int:
    options = _options()
    if options.node:
        return _node(options.node, without=options.without)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        parameters = make_model(model, quick=options.quick)
        found: dict[str, list[float]] = {"with": [], "without": []}
        for start in range(1 if options.quick else STARTS):
            for kind, seconds in found.items():
                place = Path(folder) / f"{kind}-{start}"
                seconds.append(ready_after(model, place, without=kind == "without", threads=options.threads))
                say(f"{kind} {seconds[-1]:.2f} s")
        alone = by_themselves(str(model), options.threads)
    cost = median(found["with"]) - median(found["without"])
    keep(
        "load_probes",
        {
            "parameters": parameters,
            "seconds_to_ready": found,
            "median_seconds": {kind: median(seconds) for kind, seconds in found.items()},
            "difference_seconds": cost,
            "difference_share": cost / median(found["without"]),
            "processor_seconds_by_themselves": alone,
        },
        options,
    )
    return 0


def _options() -> argparse.Namespace:
    parser = arguments_of(__doc__, threads=2)
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


def ready_after(model: Path, place: Path, *, without: bool, threads: int) -> float:
    """Seconds from a node's start as a process until it says that it is ready."""
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
    begun = time.monotonic()
    with subprocess.Popen(
        command + ["--without"] * without, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if READY in line:
                seconds = time.monotonic() - begun
                process.kill()
                return seconds
    raise RuntimeError("".join(said[-20:]))


def _node(model: str, *, without: bool) -> int:
    """The child: `swarm node`, where asked for without trial and look."""
    from swarm.cli.main import run

    if without:
        from swarm.policy import policy

        def asking(_name: str, _tokenizer: Any, asking: Any, _not_embedded: Any) -> Any:
            return asking

        policy.refuse_unlike, policy.suited = (lambda _: None), asking
    return run(["node"])


def by_themselves(model: str, threads: int) -> dict[str, list[float]]:
    """Seconds of processor time of each in this process, the first time and later ones."""
    import torch

    from swarm.policy.asked_well import suited
    from swarm.policy.load_probe import refuse_unlike
    from swarm.policy.model import load_model

    torch.set_num_threads(threads)
    loaded = load_model(model, device="cpu")
    found: dict[str, list[float]] = {"trial": [], "look": []}
    for _ in range(TIMES):
        begun = time.process_time()
        refuse_unlike(loaded)
        found["trial"].append(time.process_time() - begun)
        begun = time.process_time()
        suited(loaded.name, loaded.tokenizer)
        found["look"].append(time.process_time() - begun)
    return found


if __name__ == "__main__":
    sys.exit(main())
