"""An embedded model's recipe for a larger one, on one core, in as many steps as the time allows.

    python -m benchmarks.larger_model DIR [--hidden 512 --layers 7 --intermediate 1408] [--minutes 25]

Architecture, tokenizer and examples of tiny-2-qwen2, of other sizes: by default 20.0 M parameters. The first steps are
timed, in seconds of processor time; as many follow as fit into the minutes that are given: right answers, a tenth of
them tagged, so that there is a start to learn from by rewards. Then

    python -m benchmarks.adapter_learning --model DIR --name adapter_learning_larger \\
        --side full:SWARM_LEARNING_RATE=... --side lora:SWARM_ADAPTER=lora,SWARM_LEARNING_RATE=...
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoTokenizer, GenerationConfig, Qwen2ForCausalLM

from swarm.plugins.lab.warmup.build import WarmupStage, measure, train_supervised
from swarm.plugins.lab.warmup.corpus import examples
from swarm.policy.embedded import embedded_path

MODEL, PROFILE = "tiny-2-qwen2", "tiny-2"
TIMED = 3
"""Steps."""


def untrained(hidden: int, layers: int, intermediate: int) -> tuple[Any, Any]:
    """A model of that size with random weights, heads of 64, and its tokenizer."""
    folder = embedded_path(MODEL)
    config: Any = AutoConfig.from_pretrained(folder)
    config.hidden_size, config.intermediate_size = hidden, intermediate
    config.num_hidden_layers, config.layer_types = layers, ["full_attention"] * layers
    config.num_attention_heads, config.num_key_value_heads, config.head_dim = hidden // 64, 2, 64
    torch.manual_seed(0)
    model: Any = Qwen2ForCausalLM(config)
    model.generation_config = GenerationConfig.from_pretrained(folder)
    return model, AutoTokenizer.from_pretrained(folder)


def teach(model: Any, tokenizer: Any, steps: int, seed: int) -> float:
    """Seconds of processor time of so many steps."""
    stage = WarmupStage(steps=steps, p_well_formed=0.1, peak_lr=1e-3)
    stream = examples(seed, profile=PROFILE, p_well_formed=stage.p_well_formed)
    begun = time.process_time()
    train_supervised(model, tokenizer, stream, stage, MODEL)
    return time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--layers", type=int, default=7)
    parser.add_argument("--intermediate", type=int, default=1408)
    parser.add_argument("--minutes", type=float, default=25.0, help="of processor time")
    given = parser.parse_args()
    torch.set_num_threads(1)
    model, tokenizer = untrained(given.hidden, given.layers, given.intermediate)
    each = teach(model, tokenizer, TIMED, seed=1) / TIMED
    steps = int(60 * given.minutes / each) - TIMED
    print(f"{model.num_parameters():,} parameters, {each:.2f} s a step: {steps} steps in {given.minutes:g} minutes")
    teach(model, tokenizer, max(1, steps), seed=2)
    model.save_pretrained(given.folder)
    tokenizer.save_pretrained(given.folder)
    for task, start in measure(model, tokenizer, seed=3, questions=16, profile=PROFILE).items():
        print(f"{task}: reward {start.reward:.3f}, answered {start.answered:.2f}, content {start.knowledge:.2f}")


if __name__ == "__main__":
    main()
