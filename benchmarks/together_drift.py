"""How far what a node generates depends on who generates with it: alone against in one batch.

    python -m benchmarks.together_drift [--quick] [--nodes 8] [--models tiny-2-qwen2,tiny-2-gpt2]

Nodes with adapters of their own beside one frozen base answer the same questions, each with its own uniforms, all of
them in one batch and then each by itself. The adapters are random and of the size that some dozens of updates give
them. Counted are tokens that differ, and how far the log-probs of those that do not are apart, in fp32 and bf16 on this
CPU. Drift between generator and trainer, alone and together,
is the largest difference of a sampled token's log-prob.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from benchmarks.common import arguments_of, keep
from swarm.policy.batch import encode_groups
from swarm.policy.forward import completion_logprobs
from swarm.policy.generator import ModelGenerator
from swarm.policy.model import LanguageModel
from swarm.policy.settings import GrpoConfig, LoraConfig
from swarm.policy.shared_base import SharedBase, SharedBases
from swarm.policy.stack import split_rows, stack_rows
from swarm.types import Completion, GenerationCall, TrainGroup

PROMPTS = [f"What is {n} + {n * n}?" for n in range(1, 9)]
GROUP = 8
WAYS = ("fp32", "bf16")


def adapted(shared: SharedBase, config: LoraConfig, seed: int, deviation: float = 0.02) -> LanguageModel:
    """A node whose adapter changes something, as after some training: at first B is zero.

    Args:
        deviation: of the numbers of B.
    """
    model = shared.join(replace(config, seed=seed))
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, matrix in model.trained.items():
            if "lora_B" in name:
                matrix.copy_(torch.randn(matrix.shape, generator=random) * deviation)
    return model


def trained_drift(model: LanguageModel, groups: list[tuple[Completion, ...]]) -> float:
    """Largest difference between what was sampled with and what the trainer computes."""
    given = [
        TrainGroup(prompt, group, (1.0, -1.0) * (GROUP // 2)) for prompt, group in zip(PROMPTS, groups, strict=True)
    ]
    rows = encode_groups(given, model, all_rows=True, use_claims=False).rows
    worst = 0.0
    with torch.no_grad(), model.adapted():
        for part in split_rows(rows, max_positions=16384, packs=model.packs):
            batch = stack_rows(part, model)
            gap = completion_logprobs(model, batch, temperature=1.0) - batch.behaviour_logprobs
            worst = max(worst, gap.abs().nan_to_num(0.0).max().item())
    return worst


def measure(name: str, nodes: int, precision: str) -> dict[str, Any]:
    """One model and way of computing."""
    config = LoraConfig()
    shared, _ = SharedBases().join(name, config, device="cpu", precision=precision)
    models = [adapted(shared, config, seed) for seed in range(nodes)]
    generators = [ModelGenerator(model, GrpoConfig(adapter=config), None, shared) for model in models]
    calls = [GenerationCall(PROMPTS, GROUP, seed) for seed in range(nodes)]
    together = ModelGenerator.generate_together(list(zip(generators, calls, strict=True)))
    differ = tokens = texts = 0
    gap, drift = 0.0, {"alone": 0.0, "together": 0.0}
    for model, generator, call, groups in zip(models, generators, calls, together, strict=True):
        assert not isinstance(groups, Exception)
        alone = generator.generate(PROMPTS, group_size=GROUP, seed=call.seed)
        for ours, theirs in pairs(groups, alone):
            (our_ids, our_logprobs), (their_ids, their_logprobs) = sampled(ours), sampled(theirs)
            same = next((n for n, (a, b) in enumerate(zip(our_ids, their_ids, strict=False)) if a != b), None)
            tokens, texts = tokens + len(their_ids), texts + 1
            differ += same is not None or len(our_ids) != len(their_ids)
            close = zip(our_logprobs[:same], their_logprobs[:same], strict=False)
            gap = max([gap, *(abs(a - b) for a, b in close)])
        for side, written in (("alone", alone), ("together", groups)):
            drift[side] = max(drift[side], trained_drift(model, list(written)))
    return {"texts": texts, "tokens": tokens, "texts_that_differ": differ, "largest_gap": gap, "drift": drift}


def sampled(completion: Completion) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Token ids and their log-probs, which a model that is here tells."""
    assert completion.token_ids is not None
    assert completion.logprobs is not None
    return completion.token_ids, completion.logprobs


def pairs(ours: Any, theirs: Any) -> Iterator[tuple[Completion, Completion]]:
    """The completions of two answers to one call."""
    for left, right in zip(ours, theirs, strict=True):
        yield from zip(left, right, strict=True)


def main() -> None:
    parser = arguments_of(__doc__, threads=1)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--models", default="tiny-2-qwen2,tiny-2-gpt2")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    nodes = 2 if arguments.quick else arguments.nodes
    result: dict[str, Any] = {"nodes": nodes, "models": {}}
    for name in arguments.models.split(","):
        for way in WAYS:
            result["models"].setdefault(name, {})[way] = measure(name, nodes, way)
            print(f"  {name} {way}: {result['models'][name][way]}", file=sys.stderr)
    keep("together_drift", result, arguments)


if __name__ == "__main__":
    main()
