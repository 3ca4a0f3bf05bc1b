"""All causal architectures of the installed transformers: computed as transformers computes them, or refused in a line.

What is equal and what is refused stands in benchmarks/results/architectures.md, which is held against what is found
here.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from swarm.errors import ModelError
from swarm.policy.batch import BatchRow
from swarm.policy.draw import Sampling
from swarm.policy.forward import DynamicDecoding, completion_logprobs
from swarm.policy.generate import draw_uniforms, sample
from swarm.policy.load_probe import tried_out
from swarm.policy.model import LanguageModel, wrap_model
from swarm.policy.stack import stack_rows
from tests.engines.models.tiny_architectures import model_types, tiny_model
from tests.patience import part_a_day
from tests.unit.policy.factories import CPU, make_tokenizer

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore"),  # of transformers, of kernels that are not there
]
PROMPTS = [[5, 9, 11, 40, 7], [3, 250, 17, 8, 9, 10, 33, 34, 35, 36, 90, 91, 92, 93]]
"""Shorter and longer than a window."""
DOC = Path(__file__).parents[3] / "benchmarks" / "results" / "architectures.md"


def outcome(model_type: str) -> str:
    """`equal`, `refused` or `not built`."""
    try:
        module = tiny_model(model_type)
    except Exception:  # noqa: BLE001 - of two hundred classes each wants something else of its sizes
        return "not built"
    try:
        model = wrap_model(f"tiny-{model_type}", module, make_tokenizer(), device=CPU, max_new_tokens=10)
        if not runs_by_itself(module):
            return "not built"
        model = tried_out(model)
    except ModelError as error:
        return "refused" if f"tiny-{model_type}" in str(error) and "\n" not in str(error) else f"refused oddly: {error}"
    samples = sampled(model)
    for way, found in passes(model, samples).items():
        assert torch.allclose(found, expected(model, samples), atol=2e-4), (way, found - expected(model, samples))
    for way, found in {way: gradients(model, samples, way) for way in ("as it is trained", "padded")}.items():
        wanted = gradients(model, samples, "transformers")
        for name, gradient in wanted.items():
            scale = gradient.abs().max().item()
            assert torch.allclose(found[name], gradient, atol=1e-3 * scale + 1e-5), (way, name)
    return "equal"


def runs_by_itself(module: Any) -> bool:
    """Whether transformers itself can run it in the sizes that it was given."""
    try:
        module(input_ids=torch.tensor(PROMPTS[:1]), use_cache=False)
    except Exception:  # noqa: BLE001 - as above
        return False
    return True


Samples = list[tuple[list[int], list[int], list[float]]]


def sampled(model: LanguageModel) -> Samples:
    uniforms = draw_uniforms(len(PROMPTS), 2, 10, seed=5)
    groups = sample(DynamicDecoding(model), PROMPTS, uniform_K_G_T=uniforms, sampling=Sampling())
    return [
        (prompt, list(one.token_ids), list(one.logprobs))
        for prompt, group in zip(PROMPTS, groups, strict=True)
        for one in group
    ]


def by_transformers(model: LanguageModel, prompt: list[int], completion: list[int]) -> Tensor:
    """Log-probs of a completion: alone, not padded, not cached."""
    logits = model.module(input_ids=torch.tensor([[*prompt, *completion]]), use_cache=False).logits[0].float()
    places = range(len(prompt) - 1, len(prompt) + len(completion) - 1)
    return logits.log_softmax(dim=1)[list(places), completion]


@torch.no_grad()
def expected(model: LanguageModel, samples: Samples) -> Tensor:
    return torch.cat([by_transformers(model, prompt, completion) for prompt, completion, _ in samples])


def trained(model: LanguageModel, samples: Samples) -> Tensor:
    """In the order of the samples."""
    rows = [
        BatchRow(PROMPTS.index(prompt), tuple(prompt), tuple(ids), range(len(ids)), 1.0, True, None)
        for prompt, ids, _ in samples
    ]
    order = sorted(range(len(rows)), key=lambda index: len(rows[index].token_ids))
    batch = stack_rows([rows[index] for index in order], model)
    found = completion_logprobs(model, batch, temperature=1.0)
    parts = dict(zip(order, found.split([len(rows[index].token_ids) for index in order]), strict=True))
    return torch.cat([parts[index] for index in range(len(rows))])


def passes(model: LanguageModel, samples: Samples) -> dict[str, Tensor]:
    with torch.no_grad():
        return {
            "sampling": torch.tensor([logprob for *_, logprobs in samples for logprob in logprobs]),
            "as it is trained": trained(model, samples),
            "padded": trained(replace(model, packs=False), samples),
        }


def gradients(model: LanguageModel, samples: Samples, way: str) -> dict[str, Tensor]:
    model.module.zero_grad(set_to_none=True)
    if way == "transformers":
        logprobs = torch.cat([by_transformers(model, prompt, completion) for prompt, completion, _ in samples])
    else:
        logprobs = trained(replace(model, packs=model.packs and way != "padded"), samples)
    (logprobs * torch.linspace(-1, 1, len(logprobs))).sum().backward()
    return {
        name: one.grad.clone() if one.grad is not None else torch.zeros_like(one)
        for name, one in model.module.named_parameters()
        if one.requires_grad
    }


def said() -> dict[str, str]:
    """Architecture -> what that page says of it."""
    rows = re.findall(r"^\| (equal|refused|not built)[^|]* \| \d+ \| (.*) \|$", DOC.read_text("utf-8"), re.MULTILINE)
    return {name: row for row, names in rows for name in re.findall(r"`([\w.-]+)`", names)}


@pytest.mark.parametrize("model_type", part_a_day(model_types(), 3))
def test_every_architecture_is_what_transformers_makes_of_it_or_is_refused_in_one_line(model_type: str) -> None:
    found = outcome(model_type)
    if f"transformers {transformers.__version__}" in DOC.read_text("utf-8"):
        assert found == said()[model_type]
    if found == "not built":
        pytest.skip("no tiny model of it is made here")


def test_the_counts_of_the_documentation_are_those_of_its_names() -> None:
    rows = re.findall(r"^\| (equal|refused|not built)[^|]* \| (\d+) \| (.*) \|$", DOC.read_text("utf-8"), re.MULTILINE)
    assert len(rows) == 3
    assert all(int(count) == names.count("`") // 2 for _, count, names in rows)
