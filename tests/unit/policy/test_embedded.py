"""The shipped models are ordinary Hugging Face folders that start low and have room to climb."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from swarm.config import load_settings
from swarm.errors import ConfigError, ModelError
from swarm.policy.embedded import EMBEDDED, RATES, embedded_path, suited_device
from swarm.policy.settings import grpo_config
from tests.distributions import install
from tests.unit.policy.embedded_models import (
    OF_THE_CORE,
    ignores_system_messages,
    is_a_complete_small_folder,
    names_its_end_of_text_its_padding_and_a_short_longest_answer,
)

DIFFERENT = ("tiny-2-qwen2", "tiny-2-gpt2")


@pytest.mark.parametrize("name", OF_THE_CORE)
def test_a_model_is_a_complete_small_folder_and_is_asked_as_it_was_made(name: str) -> None:
    is_a_complete_small_folder(name)
    names_its_end_of_text_its_padding_and_a_short_longest_answer(name)
    ignores_system_messages(name)


def test_two_models_differ_in_architecture_and_in_how_they_spell_an_answer() -> None:
    first, second = (AutoTokenizer.from_pretrained(embedded_path(name)) for name in DIFFERENT)
    kinds = {AutoModelForCausalLM.from_pretrained(embedded_path(name)).config.model_type for name in DIFFERENT}
    assert kinds == {"qwen2", "gpt2"}
    answer = "<answer>0 1 0</answer>"
    assert first.tokenize(answer) != second.tokenize(answer)


@pytest.mark.parametrize(
    ("named", "models", "device"),
    [
        (None, ("tiny-2-qwen2", "tiny-2-gpt2"), "cpu"),
        (None, ("tiny-2-qwen2", "someone/model"), None),
        ("cuda", ("tiny-2-qwen2",), "cuda"),
    ],
)
def test_models_so_small_take_the_processors_unless_a_device_is_named(
    named: str | None, models: tuple[str, ...], device: str | None
) -> None:
    assert suited_device(named, models) == device


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ModelError, match="tiny-2-qwen2, tiny-2-gpt2"):
        embedded_path("tiny-llama")


def test_a_model_of_a_plugin_that_is_not_there_is_said_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = next(name for name in EMBEDDED if name not in OF_THE_CORE)
    monkeypatch.syspath_prepend(install(tmp_path / "bare", "swarm-sapo", {}))
    with pytest.raises(ModelError, match=rf"{name}' is missing at .*: install swarm again, with its plugins"):
        embedded_path(name)
    gone = {"swarm.models": {name: "swarm.plugins.deleted:FOLDER"}}
    monkeypatch.syspath_prepend(install(tmp_path / "cut", "swarm-sapo", gone))
    with pytest.raises(ConfigError, match=rf"{name} \(swarm.models\) of swarm-sapo .* install swarm-sapo again"):
        embedded_path(name)


def test_every_embedded_model_has_a_rate_of_its_own():
    assert set(RATES) == {*EMBEDDED}


@pytest.mark.parametrize(
    ("model", "adapter", "rate"),
    [
        ("tiny-2-qwen2-rare", "none", 2e-4),
        ("tiny-2-qwen2", "lora", 2e-3),
        ("openai-community/gpt2", "none", 1e-6),
        ("openai-community/gpt2", "lora", 1e-5),
    ],
)
def test_a_run_without_a_rate_gets_what_suits_its_model(model, adapter, rate):
    settings = load_settings({"model": (model,), "adapter": adapter}, {})
    assert grpo_config(settings).learning_rate == pytest.approx(rate)
    assert grpo_config(settings.with_values({"learning_rate": 3e-5})).learning_rate == 3e-5
