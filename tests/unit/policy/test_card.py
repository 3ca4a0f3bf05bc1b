"""The policy on the device at hand: a card where there is one, and the processors everywhere else.

What these compare is one device with another, or two ways on one device; `make gpu` runs them on a card.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from structlog.testing import capture_logs

from swarm.policy.decode import choose_decoding
from swarm.policy.forward import DynamicDecoding
from swarm.policy.load_probe import tried_compiled
from swarm.policy.model import LanguageModel
from tests.unit.policy.factories import ARCHITECTURES, gradient_of, largest_gap, make_group, make_model
from tests.unit.policy.test_decode import SOME_ENDS, assert_same_samples, write

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]  # of the compiler
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
GROUPS = [make_group(), make_group("What is the capital of Peru?", ("Lima", "<answer>Lima</answer>", "I do not know"))]

LONG = {"max_new_tokens": 480, "context": 2048}
LONG_GROUPS = [
    make_group(texts=tuple(f"{number} " * 225 for number in range(8)), advantages=(1.0, -1.0) * 4) for _ in range(8)
]
"""Some 29,000 tokens, of which the pass keeps about 290 MB."""


def largest(gradient: dict[str, torch.Tensor]) -> float:
    return max(one.abs().max().item() for one in gradient.values())


def on_the_device(architecture: str, **options: int) -> LanguageModel:
    model = make_model(architecture, eos_ids=SOME_ENDS, **{"max_new_tokens": 24} | options)  # type: ignore[arg-type]
    return replace(model, module=model.module.to(DEVICE), device=DEVICE)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_device_gives_the_gradient_of_the_processors(architecture: str) -> None:
    expected = gradient_of(make_model(architecture), GROUPS)
    found = gradient_of(on_the_device(architecture), GROUPS)
    gap = sum((found[name].cpu() - one).double().square().sum() for name, one in expected.items())
    assert float(gap / sum(one.double().square().sum() for one in expected.values())) ** 0.5 < 1e-4


@pytest.mark.skipif(DEVICE.type == "cpu", reason="of processors tests/engines/models/test_compiled.py shows it")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_compiled_training_pass_gives_the_gradient_of_the_processors_too(architecture: str) -> None:
    expected = gradient_of(make_model(architecture), GROUPS)
    model = tried_compiled(on_the_device(architecture))
    assert model.compiled
    assert largest_gap({name: one.cpu() for name, one in gradient_of(model, GROUPS).items()}, expected) < 1e-3


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("kind", ["static", "compiled"])
def test_every_device_writes_the_same_in_buffers_of_fixed_size_as_on_a_growing_cache(
    kind: str, architecture: str
) -> None:
    if kind == "compiled" and DEVICE.type == "cpu":
        pytest.skip("of processors tests/engines/models/test_compiled.py shows it")
    model = on_the_device(architecture)
    with capture_logs() as logs:
        recorded = choose_decoding(model, kind)
    assert not logs
    for seed in range(3):  # the first ones are recorded, and later ones replayed
        assert_same_samples(write(model, recorded, seed=seed), write(model, DynamicDecoding(model), seed=seed))


def test_every_device_finds_what_the_processors_wrote_as_likely_as_they_do() -> None:
    prompt = "What is 1 + 1?"
    processors = make_model("qwen2", eos_ids=SOME_ENDS, max_new_tokens=24)
    ids = processors.tokenizer(prompt)["input_ids"]
    written = write(processors, DynamicDecoding(processors), [ids], group_size=4)
    model = on_the_device("qwen2")
    again = write(model, DynamicDecoding(model), [ids], group_size=4)
    assert [one.token_ids for one in again] == [one.token_ids for one in written]
    both = zip(again, written, strict=True)
    assert max(abs(x - y) for here, there in both for x, y in zip(here.logprobs, there.logprobs, strict=True)) < 1e-3


def test_a_long_batch_has_a_gradient() -> None:
    assert largest(gradient_of(on_the_device("qwen2", **LONG), LONG_GROUPS)) > 0


@pytest.mark.skipif(DEVICE.type == "cpu", reason="the processors' memory has no such bound")
def test_on_a_card_that_is_too_small_the_micro_batch_is_halved_and_the_gradient_stays() -> None:
    expected = gradient_of(on_the_device("qwen2", **LONG), LONG_GROUPS, micro_batch_tokens=2**20)
    model = on_the_device("qwen2", **LONG)
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(DEVICE).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 2**27) / total)
    try:
        with capture_logs() as logs:
            found = gradient_of(model, LONG_GROUPS, micro_batch_tokens=2**20)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert "memory.halved" in {one["event"] for one in logs}
    assert largest_gap(found, expected) < 1e-4
