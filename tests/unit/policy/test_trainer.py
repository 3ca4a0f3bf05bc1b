"""One policy update: against an independent implementation, and against itself taken another way."""

from __future__ import annotations

import gc
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from swarm.config import LOSSES
from swarm.config.own_code import OwnCode
from swarm.errors import ModelError
from swarm.policy import gradient as gradient_module
from swarm.policy.batch import encode_groups
from swarm.policy.gradient import Optimizer
from swarm.policy.model import LanguageModel
from swarm.policy.policy import make_policy
from swarm.policy.settings import GrpoConfig
from swarm.policy.stack import length_blocks, positions_of, split_rows, stack_rows
from swarm.types import Completion, TrainGroup, TrainReport
from tests.unit.policy.factories import ARCHITECTURES, gradient_of, largest_gap, make_group, make_model, make_trainer
from tests.unit.policy.reference import reference

SOME_ENDS = tuple(range(40))
ADVANTAGES = (1.0, -0.5, 0.25, -0.75)
RAGGED = [
    make_group(),
    make_group("Say something long, please: " + "x" * 30, ("y" * 20, "<answer>1</answer>"), (0.5, -0.5)),
    make_group("?", ("a", "", "bc", "d" * 33, "e"), (-1.0, 0.5, 0.0, 2.0, -1.5), finished=False),
]
QUIET = make_group("2 + 2?", ("four", "4", "four"), None)


def own_groups(model: LanguageModel, *, temperature: float = 1.0) -> list[TrainGroup]:
    """Groups that the model itself has just written, to prompts of different length."""
    prompts = ["short", "a question of more length", "What is the sum of 14 and 15, and why?"]
    policy = make_policy(model, GrpoConfig(temperature=temperature))
    groups = policy.generate(prompts, group_size=4, seed=0)
    return [TrainGroup(p, completions, ADVANTAGES) for p, completions in zip(prompts, groups, strict=True)]


def weights_of(model: LanguageModel) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.module.state_dict().items()}


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize("architecture", [*ARCHITECTURES, "sliding"])
def test_loss_and_gradient_equal_an_independent_implementation(architecture: str) -> None:
    model = make_model(architecture)
    groups = [*RAGGED, QUIET]
    loss, expected = reference(model, groups, temperature=0.7)
    ours = gradient_of(model, groups, temperature=0.7)
    assert largest_gap(expected, ours) < 1e-5
    assert make_trainer(model, temperature=0.7).finish_update(groups).loss == pytest.approx(loss, abs=1e-6)


@pytest.mark.parametrize("architecture", [*ARCHITECTURES, "sliding"])
def test_trainer_and_generator_agree_on_every_logprob(architecture: str) -> None:
    model = make_model(architecture, eos_ids=SOME_ENDS)
    groups = own_groups(model, temperature=0.8)
    lengths = {len(completion.token_ids or ()) for group in groups for completion in group.completions}
    assert len(lengths) > 2
    report = make_trainer(model, temperature=0.8).finish_update(groups)
    assert 0 < report.logprob_drift < 1e-4
    wrong = make_trainer(make_model(architecture, eos_ids=SOME_ENDS), temperature=1.0).finish_update(groups)
    assert wrong.logprob_drift > 1e-2


@pytest.mark.parametrize("architecture", ["gpt2", "sliding"])
def test_rows_of_very_different_length_attend_apart_and_give_the_same_gradient(architecture: str) -> None:
    texts = tuple("abc" * n for n in (0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 9, 10, 11, 11, 12, 12))
    advantages = tuple((-1) ** n * (n + 1) / 10 for n in range(len(texts)))
    groups = [make_group("What?", texts, advantages), make_group("Which one of the two?", texts, advantages)]
    model = make_model(architecture)
    (part,) = split_rows(
        encode_groups(groups, model, all_rows=True, use_claims=False).rows, max_positions=10_000, packs=True
    )
    forward = stack_rows(part, model).forward
    assert forward.packing
    assert [block.queries.shape[1] for block in forward.packing.blocks] == [121, 3, 36]
    assert forward.mask.all(), "no position is padding"
    _, expected = reference(model, groups)
    assert largest_gap(expected, gradient_of(model, groups)) < 1e-5


@given(st.lists(st.integers(1, 50), min_size=1, max_size=70))
def test_blocks_hold_every_row_once_and_whole(lengths: list[int]) -> None:
    lengths.sort()
    blocks = length_blocks(lengths, cost=20)
    assert [row for start, stop in blocks for row in range(start, stop)] == list(range(len(lengths)))


@given(st.integers(1, 300), st.booleans())
def test_micro_batches_hold_every_row_once_within_the_budget(max_positions: int, packs: bool) -> None:
    model = replace(make_model(), packs=packs)
    rows = encode_groups(RAGGED, model, all_rows=True, use_claims=False).rows
    parts = list(split_rows(rows, max_positions=max_positions, packs=packs))
    assert sorted(map(id, rows)) == sorted(id(row) for part in parts for row in part)
    for part in parts:
        assert len(part) == 1 or positions_of(part, packs=packs) <= max_positions
        assert stack_rows(part, model).forward.ids.numel() == positions_of(part, packs=packs) - len(part)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_dropout_of_the_configuration_changes_nothing(architecture: str) -> None:
    models = [make_model(architecture, dropout=p) for p in (0.0, 0.5)]
    assert largest_gap(*(gradient_of(model, RAGGED, gradient_checkpointing=True) for model in models)) == 0


def test_gradient_checkpointing_recomputes_and_leaves_evaluation_mode() -> None:
    model = make_model()
    forwards: list[int] = []
    model.module.model.layers[0].self_attn.register_forward_hook(lambda *_: forwards.append(1))
    make_trainer(model, gradient_checkpointing=True).finish_update([make_group()])
    assert len(forwards) == 2
    assert not model.module.training


def report_and_weights(
    begun: Sequence[TrainGroup], finished: Sequence[TrainGroup], **settings: Any
) -> tuple[TrainReport, dict[str, torch.Tensor]]:
    """After one update, begun with some groups and finished with others."""
    model = make_model(eos_ids=SOME_ENDS)
    trainer = make_trainer(model, **settings)
    trainer.begin_update(begun)
    return trainer.finish_update(finished), weights_of(model)


def test_beginning_changes_no_weight_and_beginning_again_forgets() -> None:
    model = make_model(eos_ids=SOME_ENDS)
    trainer, before = make_trainer(model), weights_of(model)
    trainer.begin_update([make_group("never finished", ("x", "y"), (1.0, -1.0))])
    trainer.begin_update(RAGGED[:1])
    assert same(weights_of(model), before)
    report = trainer.finish_update(RAGGED[1:])
    expected, weights = report_and_weights(RAGGED[:1], RAGGED[1:])
    assert report == expected
    assert same(weights_of(model), weights)


def test_finishing_forgets_what_was_begun() -> None:
    trainer = make_trainer(make_model(), empty_update="skip")
    trainer.begin_update(RAGGED)
    assert trainer.finish_update([]).updated
    assert not trainer.finish_update([]).updated


def test_an_empty_update_leaves_everything_or_lets_adams_momentum_go_on() -> None:
    """By Adam's own formula; genrl steps in every round, and moves so."""
    moved = {}
    for empty_update in ("skip", "step"):
        model = make_model()
        trainer, weights = make_trainer(model, empty_update=empty_update), [weights_of(model)]
        trainer.finish_update(RAGGED)
        weights.append(weights_of(model))
        reports = []
        for _ in range(5):
            reports.append(trainer.finish_update([QUIET]))
            weights.append(weights_of(model))
        at = [torch.cat([tensor.flatten() for tensor in tensors.values()]) for tensors in weights]
        steps = [after - at[0] for after in at[1:]]
        ours = steps[0].abs() > 0.99 * steps[0].abs().max()  # where the gradient is far above Adam's epsilon
        moved[empty_update] = [(float((step[ours] / steps[0][ours]).mean()) - 1) for step in steps[1:]]
        assert {report.updated for report in reports} == {empty_update == "step"}
        assert {(report.loss, report.grad_norm, report.trained_tokens) for report in reports} == {(0.0, 0.0, 0)}
    assert moved["skip"] == [0.0] * 5
    assert moved["step"] == pytest.approx([0.67, 1.19, 1.61, 1.97, 2.27], abs=0.01)


@pytest.mark.parametrize("checkpointing", [False, True])
def test_generating_between_the_two_parts_changes_nothing(checkpointing: bool) -> None:
    reports, weights = [], []
    for generates in (False, True):
        model = make_model(eos_ids=SOME_ENDS)
        policy = make_policy(model, GrpoConfig(learning_rate=1e-3, gradient_checkpointing=checkpointing))
        policy.begin_update(RAGGED[:1])
        if generates:
            policy.generate(["?", "What is that?"], group_size=3, seed=0)
        reports.append(policy.finish_update(RAGGED[1:]))
        weights.append(weights_of(model))
    assert reports[0] == reports[1]
    assert same(*weights)


def test_groups_longer_than_the_context_are_left_out_and_counted() -> None:
    model = make_model("gpt2", context=200)
    fits, too_long = make_group(), make_group("?", ("short", "x" * 190), (1.0, -1.0))
    report = make_trainer(model).finish_update([too_long, fits])
    assert report.groups_too_long == 1
    assert report.tokens == make_trainer(make_model("gpt2", context=200)).finish_update([fits]).tokens


def test_gradient_is_clipped_to_the_norm_but_reported_whole_and_by_a_norm_of_0_not_at_all() -> None:
    model = make_model()
    free = gradient_of(model, RAGGED)
    assert largest_gap(free, gradient_of(model, RAGGED, max_grad_norm=0.0)) == 0
    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in free.values()))
    clipped = gradient_of(model, RAGGED, max_grad_norm=norm / 10)
    assert largest_gap({name: gradient / 10 for name, gradient in free.items()}, clipped) < 1e-4
    report = make_trainer(model, max_grad_norm=norm / 10).finish_update(RAGGED)
    assert report.grad_norm == pytest.approx(norm, rel=1e-4)


def test_kl_pulls_a_moved_policy_back_even_in_groups_without_advantage() -> None:
    model = make_model()
    trainer = make_trainer(model, kl_weight=1.0)
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.mul_(1.1)
    first = trainer.finish_update([QUIET])
    assert first.updated
    assert first.kl > 1e-3
    for _ in range(10):
        last = trainer.finish_update([QUIET])
    assert last.kl < first.kl / 2


def test_learning_rate_warms_up_linearly_and_stays() -> None:
    """Adam's first steps are all about one learning rate long where the gradient keeps its sign."""
    steps = []
    model = make_model()
    trainer = make_trainer(model, warmup_steps=4, learning_rate=1e-5)
    for _ in range(6):
        before = weights_of(model)
        trainer.finish_update(RAGGED)
        after = weights_of(model)
        steps.append(max((after[name] - before[name]).abs().max().item() for name in before))
    assert steps == pytest.approx([2.5e-6, 5e-6, 7.5e-6, 1e-5, 1e-5, 1e-5], rel=0.15)


@pytest.mark.parametrize(
    ("decay", "expected"), [("linear", [5e-6, 7.5e-6, 5e-6, 2.5e-6, 0]), ("cosine", [5e-6, 8.54e-6, 5e-6, 1.46e-6, 0])]
)
def test_learning_rate_falls_to_zero_over_the_run_and_goes_on_so_after_a_restart(
    decay: str, expected: list[float]
) -> None:
    config = GrpoConfig(learning_rate=1e-5, warmup_steps=2, rate_decay=decay, decay_steps=4)
    steps, state = [], None
    for _ in expected:
        weight = torch.zeros(1)
        optimizer = Optimizer({"weight": weight}, config)
        if state:
            optimizer.load_state(state)
        weight.grad = torch.ones(1)
        optimizer.step()
        steps.append(-weight.item())
        state = optimizer.state()
    assert steps == pytest.approx(expected, rel=0.01, abs=1e-12)


def test_non_finite_gradient_is_reported_and_changes_nothing() -> None:
    model = make_model()
    trainer = make_trainer(model)
    trainer.finish_update(RAGGED)
    weights, state = weights_of(model), trainer.state()
    with capture_logs() as logs:
        report = trainer.finish_update([make_group(advantages=(math.inf, -1.0, 0.5))])
    assert not report.updated
    assert [log["event"] for log in logs] == ["train.non_finite"]
    assert same(weights_of(model), weights)
    assert same(trainer.state().first_moments, state.first_moments)
    assert trainer.finish_update(RAGGED).updated


def tensors() -> tuple[int, int]:
    """How many this process holds, and their bytes."""
    gc.collect()
    found = [tensor for tensor in gc.get_objects() if issubclass(type(tensor), torch.Tensor)]
    return len(found), sum(tensor.numel() * tensor.element_size() for tensor in found)


def test_rounds_leave_no_tensor_behind() -> None:
    """What a GPU's memory would fill up with, so that a run ends after hours."""
    policy = make_policy(make_model(eos_ids=SOME_ENDS), GrpoConfig())

    def play(rounds: int) -> None:
        for _ in range(rounds):
            (answers,) = policy.generate(["How much is 17 + 4?"], group_size=4, seed=1)
            policy.finish_update([*RAGGED, TrainGroup("How much is 17 + 4?", answers, ADVANTAGES)])

    play(2)
    before = tensors()
    play(3)
    assert tensors() == before


def fail_above(limit: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Run out of memory, after the forward pass, in micro-batches of more than `limit` rows. Returns the sizes seen."""
    seen: list[int] = []
    plain = gradient_module.completion_logprobs

    def limited(model: LanguageModel, batch: Any, **options: Any) -> torch.Tensor:
        logprob = plain(model, batch, **options)
        seen.append(len(batch.lengths))
        if seen[-1] > limit:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return logprob

    monkeypatch.setattr(gradient_module, "completion_logprobs", limited)
    return seen


def test_out_of_memory_halves_the_micro_batch_and_repeats_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = gradient_of(make_model(), RAGGED)
    seen = fail_above(3, monkeypatch)
    with capture_logs() as logs:
        ours = gradient_of(make_model(), RAGGED, micro_batch_tokens=1024)
    assert largest_gap(expected, ours) < 1e-5
    assert {log["event"] for log in logs} == {"memory.halved"}
    assert seen[0] > 3
    assert max(seen[-3:]) <= 3


def fail_at(call: int, monkeypatch: pytest.MonkeyPatch, *, after_backward: bool = False) -> list[int]:
    """Run out of memory in one forward pass, or behind one backward pass. Returns a list that grows with each."""
    calls: list[int] = []
    owner, name = (torch.autograd, "backward") if after_backward else (gradient_module, "completion_logprobs")
    plain = getattr(owner, name)

    def fails_once(*args: Any, **options: Any) -> Any:
        calls.append(1)
        result = plain(*args, **options) if after_backward or len(calls) != call else None
        if len(calls) == call:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return result

    monkeypatch.setattr(owner, name, fails_once)
    return calls


@pytest.mark.parametrize("after_backward", [False, True])
@pytest.mark.parametrize("call", [2, 5])
def test_out_of_memory_at_any_point_of_either_part_loses_no_row_and_counts_none_twice(
    call: int, after_backward: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"micro_batch_tokens": 250, "iterations": 2, "learning_rate": 1e-5}
    expected, _ = report_and_weights(RAGGED[:2], RAGGED[2:], **options)
    calls = fail_at(call, monkeypatch, after_backward=after_backward)
    with capture_logs() as logs:
        ours, _ = report_and_weights(RAGGED[:2], RAGGED[2:], **options)
    assert len(calls) > call
    assert [(log["event"], log["size"]) for log in logs] == [("memory.halved", 125)]
    assert ours.loss == pytest.approx(expected.loss, abs=1e-5)
    assert ours.grad_norm == pytest.approx(expected.grad_norm, rel=1e-4)
    assert ours.trained_tokens == expected.trained_tokens


def test_no_memory_for_the_optimizer_ends_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer(make_model())

    def fail(_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch.optim.AdamW, "step", fail)
    with pytest.raises(ModelError, match="no GPU memory left for Adam's moments"):
        trainer.finish_update(RAGGED)


def test_generation_halves_its_rows_when_out_of_memory_and_writes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from swarm.policy import generate

    policy = make_policy(make_model(), GrpoConfig())
    expected = policy.generate(["a", "b", "c"], group_size=4, seed=1)
    plain = generate.sample
    rows: list[int] = []

    def limited(decoding: Any, prompts: Any, *, uniform_K_G_T: torch.Tensor, **options: Any) -> Any:
        rows.append(uniform_K_G_T.shape[0] * uniform_K_G_T.shape[1])
        if rows[-1] > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return plain(decoding, prompts, uniform_K_G_T=uniform_K_G_T, **options)

    monkeypatch.setattr(generate, "sample", limited)
    with capture_logs() as logs:
        ours = policy.generate(["a", "b", "c"], group_size=4, seed=1)
    assert [[c.token_ids for c in group] for group in ours] == [[c.token_ids for c in group] for group in expected]
    assert [log["size"] for log in logs] == [6, 3, 1]


def test_a_peers_logprobs_weigh_its_tokens_but_are_no_drift() -> None:
    model = make_model()
    completion = Completion("ab", False, tuple(model.tokenizer("ab")["input_ids"]), (-0.001, -0.001))
    group = TrainGroup("?", (completion,), (1.0,), external=True, tokenizer=model.tokenizer_digest)
    report = make_trainer(model, importance_cap=2.0).finish_update([group])
    assert report.importance_tokens == 2
    assert 0 < report.importance_mean < 1
    assert report.logprob_drift == 0


def test_head_that_is_no_matrix_trains_the_same() -> None:
    class Adapted(torch.nn.Linear):
        """Not to be seen through."""

    expected = gradient_of(make_model(), RAGGED)
    model = make_model()
    head = model.module.get_output_embeddings()
    head.__class__ = Adapted
    assert largest_gap(expected, gradient_of(model, RAGGED)) < 1e-5


def test_tokenizer_without_pad_token_trains_as_one_with() -> None:
    from tests.unit.policy.factories import make_tokenizer

    gaps = [gradient_of(make_model("gpt2", tokenizer=make_tokenizer(pad=pad)), RAGGED) for pad in (False, True)]
    model = make_model("gpt2")
    assert model.pad_id == model.eos_id
    padded = gradient_of(replace(model, pad_id=7), RAGGED)
    assert largest_gap(gaps[0], padded) == 0
    assert all(torch.isfinite(gradient).all() for gradient in gaps[1].values())


# ── losses by name ──────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_gives_the_same_update_in_micro_batches_and_in_two_parts(loss: str) -> None:
    groups = [*RAGGED, QUIET]
    options = {"loss": loss, "clip_low": 0.01, "clip_high": 0.02, "kl_weight": 0.3, "iterations": 3}
    whole = make_trainer(whole_model := make_model(), **options)
    parted = make_trainer(parted_model := make_model(), micro_batch_tokens=64, **options)
    reports = [whole.finish_update(groups)]
    parted.begin_update(groups[:1])
    reports.append(parted.finish_update(groups[1:]))
    for name in ("loss", "grad_norm", "clip_fraction", "kl"):
        assert getattr(reports[0], name) == pytest.approx(getattr(reports[1], name), rel=1e-3, abs=1e-6)
    assert (reports[0].clip_fraction > 0) == (loss != "cispo"), "later iterations are held against the first weights"
    assert largest_gap(weights_of(whole_model), weights_of(parted_model)) < 1e-3


@pytest.mark.parametrize("loss", LOSSES)
def test_groups_without_advantage_stay_in_every_denominator(loss: str) -> None:
    counted = {"grpo": "tokens", "cispo": "tokens", "grpo_masked": "tokens"}.get(loss, "completions")
    alone, beside = (
        make_trainer(make_model(), loss=loss).finish_update(groups) for groups in (RAGGED, [*RAGGED, QUIET])
    )
    grown = {"tokens": beside.tokens / alone.tokens, "completions": 13 / 10}[counted]
    assert alone.grad_norm / beside.grad_norm == pytest.approx(grown, rel=1e-4)
    assert alone.trained_tokens == beside.trained_tokens


def test_batch_scaling_divides_by_the_spread_of_all_groups_those_without_advantage_included() -> None:
    groups = [*RAGGED, QUIET]
    plain, scaled = (make_trainer(make_model(), batch_std=batch).finish_update(groups) for batch in (False, True))
    everything = [advantage for group in groups for advantage in group.advantages]
    spread = math.sqrt(fmean(advantage**2 for advantage in everything))
    assert plain.grad_norm / scaled.grad_norm == pytest.approx(spread, rel=1e-5)
    assert plain.loss / scaled.loss == pytest.approx(spread, rel=1e-5)


def test_a_loss_of_ones_own_is_trained_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "twice.py").write_text(
        "from swarm.algo.losses import grpo\n"
        "def loss(batch, settings):\n"
        "    losses = grpo(batch, settings)\n    return losses._replace(loss=2 * losses.loss)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    ours, plain = (
        make_trainer(make_model(), loss=name).finish_update(RAGGED) for name in (OwnCode("twice:loss"), "grpo")
    )
    assert ours.grad_norm == pytest.approx(2 * plain.grad_norm, rel=1e-5)
