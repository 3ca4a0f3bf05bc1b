"""How many right texts teach a fact: a specialist, supervised on right answers to the tables that it does not know.

    python -m benchmarks.facts_supervised specialists/specialist-1-qwen2 [--steps 2] [--rate 6e-4] [--texts 64]

Each round has as many right texts, drawn from all facts of others' tables, and Adam takes as many steps on them at a
constant rate: what a round of docs/study/specialists.toml does with the right texts of its external groups, without
their negative half, their weights and the own groups. Printed is the probability of the right answer, mean over these
facts, as it is behind so many right texts per fact.
"""

from __future__ import annotations

import argparse
import random

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from swarm.plugins.lab.facts.tables import BEST_CONSTANT, known_to_model
from swarm.plugins.lab.warmup.build import backward, encode
from swarm.plugins.lab.warmup.corpus import WELL_FORMED, Example
from swarm.plugins.lab.warmup.specialists import all_facts

PRINTED = 5
"""Rounds between two lines."""


def main() -> None:
    """Print the table."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("model")
    asked.add_argument("--steps", type=int, default=2)
    asked.add_argument("--rate", type=float, default=6e-4)
    asked.add_argument("--texts", type=int, default=64)
    asked.add_argument("--rounds", type=int, default=60)
    asked.add_argument("--seed", type=int, default=1)
    given = asked.parse_args()
    torch.set_num_threads(1)
    rng, tokenizer = random.Random(given.seed), AutoTokenizer.from_pretrained(given.model)
    model = AutoModelForCausalLM.from_pretrained(given.model)
    known = known_to_model(given.model.rstrip("/")) or ()
    unknown = [
        encode(tokenizer, Example(task, one.prompt, WELL_FORMED.format(one.answer)))
        for one in all_facts()
        if (task := one.known_origin().task) not in known
    ]
    optimizer = torch.optim.AdamW(model.parameters(), lr=given.rate, weight_decay=0.0)
    print(f"best constant answer {BEST_CONSTANT}; {given.texts} right texts a round, {given.steps} x {given.rate}")
    print("round  right texts per fact  P(right)")
    for done in range(given.rounds + 1):
        if done % PRINTED == 0:
            print(
                f"{done:5d}  {done * given.texts / len(unknown):20.0f}  {probability(model, unknown):8.3f}", flush=True
            )
        texts = rng.choices(unknown, k=given.texts)
        for _ in range(given.steps):
            backward(model, texts)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()


@torch.no_grad()
def probability(model: torch.nn.Module, examples: list) -> float:  # type: ignore[type-arg]
    """Of the whole target, mean over the examples."""
    found = []
    for prompt, target in examples:
        ids = torch.tensor([prompt + target])
        logprobs_T_V = model(input_ids=ids).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        found.append(logprobs_T_V.gather(1, torch.tensor(target)[:, None]).sum().exp())
    return float(torch.stack(found).mean())


if __name__ == "__main__":
    main()
