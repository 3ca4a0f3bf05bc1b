"""A model that does not compute here what transformers computes is refused when it is loaded, in one line."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from structlog.testing import capture_logs
from transformers import BartConfig, OpenAIGPTConfig
from transformers.models.qwen2 import modeling_qwen2

from swarm.errors import ModelError
from swarm.policy.load_probe import Gap, refuse_unlike, tried_compiled, verdict
from swarm.policy.model import LanguageModel, wrap_model
from swarm.policy.policy import load_generator, load_policy
from swarm.policy.settings import GrpoConfig, LoraConfig
from tests.unit.policy.factories import (
    CPU,
    gradient_of,
    largest_gap,
    make_config,
    make_group,
    make_model,
    make_module,
    make_tokenizer,
)

UNSUITED = {  # of all architectures tests/engines/models has one each
    "positions that are ignored": BartConfig(
        vocab_size=300, d_model=32, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=48, is_decoder=True
    ),
    "no cache": OpenAIGPTConfig(vocab_size=300, n_embd=32, n_layer=2, n_head=4, n_positions=128),
}


def saved(folder: Path, config: Any) -> str:
    make_module(config=config, scale=20.0).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("kind", UNSUITED)
def test_an_architecture_that_does_not_fit_is_refused_in_one_line_that_says_what_to_use(
    kind: str, tmp_path: Path
) -> None:
    folder = saved(tmp_path, UNSUITED[kind])
    for load in (load_policy, load_generator):
        with pytest.raises(ModelError, match=r"cannot be used here.*such as Qwen2.5, Llama 3") as caught:
            load(folder, GrpoConfig(max_new_tokens=4), threads=1, device="cpu")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("architecture", ["qwen2", "gpt2", "llama", "sliding"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_frozen_weights_in_half_precision_pass_with_their_own_noise(architecture: str, dtype: torch.dtype) -> None:
    refuse_unlike(in_half(architecture, dtype))


def in_half(architecture: str, dtype: torch.dtype, **options: float) -> LanguageModel:
    module = make_module(architecture, **options).to(dtype)
    model = wrap_model(f"tiny-{architecture}", module, make_tokenizer(), device=CPU, frozen=True, precision="fp32")
    return replace(model, autocast_dtype=dtype)


@pytest.mark.parametrize("dtype", [None, torch.bfloat16], ids=["fp32", "bf16"])
def test_positions_that_are_one_off_are_found_in_any_precision(
    dtype: torch.dtype | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where padding counts: what transformers computes with positions of its own is another thing."""
    model = make_model() if dtype is None else in_half("qwen2", dtype, scale=20.0)
    refuse_unlike(model)
    whole = modeling_qwen2.Qwen2RotaryEmbedding.forward

    def shifted(self: Any, hidden: Any, position_ids: Any, *rest: Any) -> Any:
        return whole(self, hidden, position_ids * 2 if len(position_ids) > 1 else position_ids, *rest)

    monkeypatch.setattr(modeling_qwen2.Qwen2RotaryEmbedding, "forward", shifted)
    with pytest.raises(ModelError, match="log-probs are up to"):
        refuse_unlike(model)


Pass = dict[str, Any]


def with_padding(inputs: Pass) -> Pass:
    return inputs | {"attention_mask": torch.ones_like(inputs["attention_mask"])}


@pytest.mark.parametrize("pass_", ["prompts", "tokens one by one"])
def test_every_node_is_refused_for_what_it_would_sample_wrong(
    pass_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_faults(monkeypatch, {pass_: with_padding})
    assert all(map(is_refused, loads(tmp_path).values()))


def test_a_model_whose_rows_cannot_be_packed_has_them_padded_and_is_refused_where_that_is_wrong_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_faults(monkeypatch, {"packed rows": with_other_positions})
    with capture_logs() as logs:
        assert not any(map(is_refused, loads(tmp_path).values()))
    assert [log["event"] for log in logs].count("model.not_packed") == 3
    with_faults(monkeypatch, {"packed rows": with_other_positions, "padded rows": with_other_positions})
    assert {who for who, load in loads(tmp_path).items() if not is_refused(load)} == {"generator"}


def with_other_positions(inputs: Pass) -> Pass:
    return inputs | {"position_ids": inputs["position_ids"] * 2}


def with_faults(monkeypatch: pytest.MonkeyPatch, faults: dict[str, Callable[[Pass], Pass]]) -> None:
    whole = FORWARD

    def faulty(body: Any, *ids: Any, **inputs: Any) -> Any:
        return whole(body, *ids, **faults.get(kind_of(inputs), lambda same: same)(inputs))

    faulty.__signature__ = inspect.signature(whole)  # type: ignore[attr-defined]
    monkeypatch.setattr(modeling_qwen2.Qwen2Model, "forward", faulty)


FORWARD = modeling_qwen2.Qwen2Model.forward


def loads(tmp_path: Path) -> dict[str, Callable[[], object]]:
    folder, config = saved(tmp_path, make_config("qwen2")), GrpoConfig(max_new_tokens=4)
    return {
        "generator": lambda: load_generator(folder, config, device="cpu"),
        "trainer": lambda: load_policy(folder, config, device="cpu"),
        "trainer that recomputes": lambda: load_policy(
            folder, replace(config, gradient_checkpointing=True), device="cpu"
        ),
        "adapter": lambda: load_policy(folder, replace(config, adapter=LoraConfig(rank=2)), device="cpu"),
    }


def is_refused(load: Callable[[], object]) -> bool:
    try:
        load()
    except ModelError as error:
        return "log-probs are up to" in str(error)
    return False


def kind_of(inputs: Pass) -> str:
    """Which pass it is; transformers' own has no mask."""
    if inputs.get("attention_mask") is None:
        return "own"
    cache = inputs.get("cache")
    if cache is None:
        return "packed rows" if len(inputs["input_ids"]) == 1 else "padded rows"
    return "tokens one by one" if cache.get_seq_length() else "prompts"


def test_no_weight_and_no_random_number_is_other_behind_the_trial() -> None:
    model = make_model("gpt2")
    before = {name: weight.clone() for name, weight in model.module.named_parameters()}
    torch.manual_seed(3)
    refuse_unlike(model)
    drawn = torch.rand(4)
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(4))
    assert all(torch.equal(before[name], weight) for name, weight in model.module.named_parameters())
    assert all(weight.grad is None for weight in model.module.parameters())


def test_weights_that_are_not_finite_are_refused() -> None:
    model = make_model()
    with torch.no_grad():
        next(iter(model.module.parameters())).fill_(math.nan)
    with pytest.raises(ModelError, match="cannot be used here"):
        refuse_unlike(model)


def test_what_is_equal_depends_on_what_the_weights_are_held_in() -> None:
    def said(gap: float, noise: float | None, rounding: float = 0.0) -> str:
        return verdict({"while it samples": Gap(gap, gap, gap)}, noise=noise, rounding=rounding)

    assert said(1e-4, None) == ""
    assert "where at most 0.001 is rounding" in said(2e-3, None)
    assert said(4e-2, 0.0, 5e-2) == ""
    assert said(0.2, 0.1, 5e-2) == ""
    assert "while it samples" in said(0.2, 0.0, 5e-2)
    assert said(0.5, 10.0, 5e-2)  # no noise excuses everything
    assert said(math.nan, None)
    assert said(math.nan, math.nan, 5e-2)


def test_a_token_more_than_the_model_embeds_is_text_where_nothing_uses_it() -> None:
    tokenizer = make_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image_soft_token>"]})
    rows = len(tokenizer) - 1
    model = wrap_model("m", make_module(config=make_config("qwen2", vocabulary=rows)), tokenizer, device=CPU)
    refuse_unlike(model)
    assert model.not_embedded == ("<image_soft_token>",)
    ids = model.tokenizer("What is <image_soft_token>?")["input_ids"]
    assert max(ids) < rows
    assert model.tokenizer.decode(ids) == "What is <image_soft_token>?"
    assert tokenizer("<image_soft_token>")["input_ids"] == [rows]


def test_a_checkpoint_of_such_a_model_is_loaded_again(tmp_path: Path) -> None:
    tokenizer = make_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image_soft_token>"]})
    make_module(config=make_config("qwen2", vocabulary=len(tokenizer) - 1)).save_pretrained(tmp_path / "hub")
    tokenizer.save_pretrained(tmp_path / "hub")
    policy = load_policy(str(tmp_path / "hub"), GrpoConfig(max_new_tokens=4), threads=1, device="cpu")
    (group,) = policy.generate(["Say <image_soft_token>."], group_size=2, seed=1)
    assert len(group) == 2
    (tmp_path / "checkpoint").mkdir()
    policy.snapshot().write(str(tmp_path / "checkpoint"))
    again = load_generator(
        str(tmp_path / "checkpoint" / "model"), GrpoConfig(max_new_tokens=4), threads=1, device="cpu"
    )
    assert again.tokenizer == policy.tokenizer


def test_a_token_beyond_the_embedding_is_refused_where_it_ends_texts_or_stands_in_the_prompt(tmp_path: Path) -> None:
    ending = make_tokenizer()
    ending.add_special_tokens({"eos_token": "<end>"})
    rows = len(ending) - 1
    with pytest.raises(ModelError, match=f"begins or ends texts with '<end>', token {rows}"):
        wrap_model("m", make_module(config=make_config("qwen2", vocabulary=rows)), ending, device=CPU)
    template = "{% for message in messages %}<|turn|>{{ message['content'] }}{% endfor %}<|turn|>"
    asking = make_tokenizer(chat_template=template)
    asking.add_special_tokens({"additional_special_tokens": ["<|turn|>"]})
    make_module(config=make_config("qwen2", vocabulary=len(asking) - 1)).save_pretrained(tmp_path)
    asking.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"names <\|turn\|>, which the model does not embed"):
        load_generator(str(tmp_path), GrpoConfig(), threads=1, device="cpu")


def test_what_cannot_be_compiled_trains_as_it_is_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise FileNotFoundError("no C++ compiler")

    monkeypatch.setattr(torch, "compile", lambda _function, **_options: fails)
    model = make_model()
    with capture_logs() as logs:
        assert tried_compiled(model) is model
    assert [(log["event"], log["reason"]) for log in logs] == [
        ("model.not_compiled", "FileNotFoundError: no C++ compiler")
    ]
    assert all(parameter.grad is None for parameter in model.module.parameters())
    with capture_logs():
        refuse_unlike(model)  # its layers are what they were


@pytest.mark.parametrize("part", ["block_gradient", "_call_impl"])
def test_a_compiler_that_gives_another_gradient_is_not_used(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled(function: Callable[..., Any], **_: object) -> Callable[..., Any]:
        return (lambda *given, **named: function(*given, **named) * 1.1) if function.__name__ == part else function

    monkeypatch.setattr(torch, "compile", compiled)
    with capture_logs() as logs:
        assert tried_compiled(make_model()).compiled is None
    assert [log["event"] for log in logs] == ["model.not_compiled"]
    assert "gradients differ by" in logs[0]["reason"]


def test_a_compiler_that_gives_up_later_costs_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first update may have sizes that the trial had not."""
    broken = False

    def compiled(function: Callable[..., Any], **_: object) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            if broken:
                raise RuntimeError("backend='inductor' raised")
            return function(*given, **named)

        return run

    monkeypatch.setattr(torch, "compile", compiled)
    group, plain = make_group(), make_model()
    model = tried_compiled(plain)
    assert model.compiled
    broken = True
    with capture_logs() as logs:
        found = gradient_of(model, [group], kl_weight=0.1)
    assert [log["event"] for log in logs] == ["model.not_compiled"]
    assert largest_gap(found, gradient_of(plain, [group], kl_weight=0.1)) == 0
