"""Decoding: static buffers write what a growing cache does, steps are recorded once, and a bad graph is never used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain

import pytest
import torch
from structlog.testing import capture_logs
from torch import Tensor

from swarm.policy import static_decode
from swarm.policy.decode import Decoding, choose_decoding
from swarm.policy.draw import Sampling
from swarm.policy.forward import DynamicDecoding
from swarm.policy.generate import GeneratedSample, draw_uniforms, sample
from swarm.policy.model import LanguageModel
from swarm.policy.static_decode import Buffers, DecodeWeights, Replay, StaticDecoding, Step, column_bucket, row_bucket
from tests.unit.policy.factories import ARCHITECTURES, FakeCapture, make_model, make_module

RAGGED = [[5, 6, 7], [9] * 40, [11, 12, 13, 14, 15, 16, 17]]
SOME_ENDS = tuple(range(20))
"""With this many end-of-text tokens, random models end about every thirteenth token."""


def write(
    model: LanguageModel, decoding: Decoding, prompts: list[list[int]] = RAGGED, *, group_size: int = 5, seed: int = 1
) -> list[GeneratedSample]:
    uniforms = draw_uniforms(len(prompts), group_size, model.max_new_tokens, seed)
    groups = sample(decoding, prompts, uniform_K_G_T=uniforms, sampling=Sampling(temperature=0.9))
    return list(chain(*groups))


def assert_same_samples(left: list[GeneratedSample], right: list[GeneratedSample]) -> None:
    assert [(one.token_ids, one.finished) for one in left] == [(one.token_ids, one.finished) for one in right]
    pairs = chain.from_iterable(zip(x.logprobs, y.logprobs, strict=True) for x, y in zip(left, right, strict=True))
    assert max(abs(x - y) for x, y in pairs) < 1e-5


def make_ending_model(architecture: str = "qwen2", **options: int) -> LanguageModel:
    return make_model(architecture, eos_ids=SOME_ENDS, max_new_tokens=40, **options)


@pytest.mark.parametrize(
    ("architecture", "attention"), [*((name, "sdpa") for name in ARCHITECTURES), ("gpt2", "eager")]
)
def test_static_decoding_writes_the_same_tokens_and_logprobs(architecture: str, attention: str) -> None:
    model = make_ending_model(architecture)
    model.module.set_attn_implementation(attention)
    expected, static = write(model, DynamicDecoding(model)), choose_decoding(model, "static")
    assert isinstance(static, StaticDecoding)
    assert_same_samples(write(model, static), expected)
    assert len({len(one.token_ids) for one in expected}) > 5  # so rows have moved up


@pytest.mark.parametrize("architecture", ["qwen2", "gpt2"])
def test_static_decoding_of_rows_that_run_into_the_end_of_the_context(architecture: str) -> None:
    model = make_ending_model(architecture, context=46)
    assert_same_samples(write(model, StaticDecoding(model, None)), write(model, DynamicDecoding(model)))


def test_buffers_of_an_earlier_call_leave_no_trace() -> None:
    model = make_ending_model()
    decoding = StaticDecoding(model, None)
    before = write(model, decoding)
    write(model, decoding, [[17] * 90, [3] * 20], seed=2)
    with torch.no_grad():
        next(model.module.parameters()).fill_(torch.nan)
    with decoding.region():  # keys and values that are not numbers
        decoding.begin([[1] * 100], group_size=16, steps=20).forward(torch.ones(16, dtype=torch.long))
    model.module.load_state_dict(make_module().state_dict())
    assert_same_samples(write(model, decoding), before)


def test_every_step_is_recorded_once_and_then_replayed_for_good() -> None:
    model, capture = make_ending_model(), FakeCapture()
    decoding = StaticDecoding(model, capture)
    for seed in range(2):
        write(model, decoding, seed=seed)
    recorded, replayed = decoding.steps.captures + decoding.drawings.captures, capture.replayed
    assert recorded == capture.recorded > 3
    for seed in range(2):
        assert_same_samples(write(model, decoding, seed=seed), write(model, DynamicDecoding(model), seed=seed))
    assert capture.recorded == recorded
    assert capture.replayed > replayed + 20


def test_larger_batches_drop_graphs_of_smaller_buffers() -> None:
    model, capture = make_model(max_new_tokens=4), FakeCapture()
    decoding = StaticDecoding(model, capture)
    for group_size in (1, 1, 8, 1, 8):
        write(model, decoding, group_size=group_size)
    assert capture.recorded == 2 * 3  # a drawing and a step of 4 rows; of 32 rows; of 4 rows in the larger buffers


def test_weights_in_other_places_are_recorded_anew() -> None:
    model, capture = make_model(max_new_tokens=4), FakeCapture()
    decoding = StaticDecoding(model, capture)
    write(model, decoding)
    for parameter in model.module.parameters():
        parameter.data = parameter.data.clone()
    write(model, decoding)
    assert capture.recorded == 2 + 1  # the step twice; drawing needs no weights


@pytest.mark.parametrize(
    ("replay", "reason"),
    [
        (None, "not permitted"),  # it cannot be recorded
        (lambda step, _first: None, "its output differs by nan"),  # a graph that does nothing
        (lambda step, _first: step().add_(1), "its output differs by 1"),
        (lambda step, first: step().copy_(first), "its output differs by"),  # one that took its inputs for constants
    ],
)
def test_a_graph_that_fails_or_computes_something_else_is_refused_and_changes_no_token(
    replay: Callable[[Step, Tensor], None] | None, reason: str
) -> None:
    class Broken(FakeCapture):
        def __call__(self, step: Step) -> Replay:
            self.recorded += 1
            if replay is None:
                raise RuntimeError("operation not permitted when stream is capturing")
            first = step().clone()
            return lambda: replay(step, first)

    model, capture = make_ending_model(), Broken()
    decoding = StaticDecoding(model, capture)
    with capture_logs() as logs:
        written = write(model, decoding)
    assert_same_samples(written, write(model, DynamicDecoding(model)))
    refused = [(event["event"], event["rows"], event["columns"]) for event in logs]
    assert sorted(refused) == [("decode.graph_refused", 16, 0), ("decode.graph_refused", 16, 64)]
    assert all(reason in event["reason"] for event in logs)
    recorded = capture.recorded
    write(model, decoding, seed=5)
    assert capture.recorded == recorded


def test_what_a_refused_graph_has_drawn_is_drawn_anew() -> None:
    class OthersUniforms(FakeCapture):
        def __call__(self, step: Step) -> Replay:
            self.recorded += 1

            def replay() -> None:
                assert decoding._buffers
                uniforms = decoding._buffers.uniforms
                kept = uniforms.clone()
                uniforms.fill_(0.5)
                step()
                uniforms.copy_(kept)

            return replay

    model = make_ending_model()
    decoding = StaticDecoding(model, OthersUniforms())
    with capture_logs() as logs:
        written = write(model, decoding)
    assert [(event["event"], event["columns"]) for event in logs] == [("decode.graph_refused", 0)]
    assert_same_samples(written, write(model, DynamicDecoding(model)))


def test_sliding_windows_are_decoded_dynamically() -> None:
    with capture_logs() as logs:
        decoding = choose_decoding(make_model("sliding"), "static")
    assert isinstance(decoding, DynamicDecoding)
    (event,) = logs
    assert event["event"] == "decode.dynamic_instead"
    assert "DynamicSlidingWindowLayer" in event["reason"]


def test_model_that_reads_static_buffers_wrongly_is_decoded_dynamically(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static_decode, "_ready_mask", lambda _model, visible: torch.ones_like(visible)[:, None, None])
    with capture_logs() as logs:
        decoding = choose_decoding(make_model(), "static")
    assert isinstance(decoding, DynamicDecoding)
    assert "of the largest" in logs[0]["reason"]


@pytest.mark.parametrize("failure", [RuntimeError("no C++ compiler"), FileNotFoundError("g++")])
def test_a_step_that_cannot_be_compiled_is_said_once_and_decoded_otherwise(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> Tensor:
        raise failure

    monkeypatch.setattr(torch, "compile", lambda _step, **_options: fails)
    with capture_logs() as logs:
        decoding = choose_decoding(make_model(), "compiled")
    assert isinstance(decoding, DynamicDecoding)
    assert [event["event"] for event in logs] == ["decode.not_compiled"]
    assert str(failure) in logs[0]["reason"]


@pytest.mark.parametrize("factor", [1.1, torch.nan])
@pytest.mark.parametrize("output", ["logits", "logprobs"])
def test_a_compiler_that_computes_something_else_is_not_used(
    output: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrongly(step: Callable[..., None]) -> Callable[..., None]:
        def run(part: Buffers, *rest: object) -> None:
            step(part, *rest)
            getattr(part, output).mul_(factor)

        return run

    monkeypatch.setattr(torch, "compile", wrongly)
    with capture_logs() as logs:
        decoding = choose_decoding(make_model(), "compiled")
    assert isinstance(decoding, DynamicDecoding)
    assert "of the largest" in logs[0]["reason"]


def test_out_of_memory_gives_the_buffers_back() -> None:
    model = make_model()
    decoding = StaticDecoding(model, FakeCapture())
    write(model, decoding)
    with pytest.raises(torch.OutOfMemoryError), decoding.region():
        raise torch.OutOfMemoryError("too large")
    assert decoding._buffers is None
    assert_same_samples(write(model, decoding), write(model, DynamicDecoding(model)))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_weights_cast_beforehand_give_what_autocast_gives_to_the_bit(architecture: str) -> None:
    model = replace(make_model(architecture), autocast_dtype=torch.bfloat16)
    weights = DecodeWeights(model)
    addresses = weights.addresses()
    ids, positions = torch.arange(20)[None], torch.arange(20)[None]
    for _ in range(2):
        with torch.inference_mode():
            expected, got = (
                one.logits(one.hidden(ids, mask=None, positions_B_T=positions)) for one in (model, weights.model)
            )
        assert torch.equal(expected, got)
        with torch.no_grad():
            for parameter in model.module.parameters():
                parameter.mul_(1.1)
        weights.refresh()
    assert weights.addresses() == addresses
    products = [part for part in weights.model.module.modules() if type(part).__name__ in ("Linear", "Conv1D")]
    assert {part.weight.dtype for part in products} == {torch.bfloat16}  # else they would be cast at every step


def test_bf16_decoding_sees_each_update_and_never_touches_the_trained_weights() -> None:
    model = replace(make_ending_model(), autocast_dtype=torch.bfloat16)
    decoding = StaticDecoding(model, FakeCapture())
    first = write(model, decoding)
    before = {name: tensor.clone() for name, tensor in model.module.state_dict().items()}
    write(model, decoding, seed=3)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.module.state_dict().items())
    model.module.load_state_dict(make_module(seed=1).state_dict())
    changed = write(model, decoding)
    assert changed != first
    assert changed == write(model, StaticDecoding(model, None))


def test_sizes_are_rounded_up_to_few() -> None:
    assert [row_bucket(rows) for rows in (1, 2, 3, 4, 5, 64, 65)] == [2, 2, 4, 4, 8, 64, 128]
    sizes = [column_bucket(columns) for columns in range(1, 3000)]
    assert sorted(set(sizes)) == [64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072]
    assert all(size >= columns for columns, size in enumerate(sizes, start=1))
