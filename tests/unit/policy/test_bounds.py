"""Which external tokens get a gradient: against an update written out in float64, and against itself without bounds."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import pairwise

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from swarm.algo.bounds import Floors, learned_tokens
from swarm.config import LOSSES
from swarm.policy import gradient
from swarm.policy.batch import encode_groups
from swarm.policy.model import LanguageModel
from swarm.policy.parts import UpdateOptions
from swarm.types import Completion, TrainGroup, Turn
from tests.unit.policy.factories import gradient_of, largest_gap, make_group, make_model, make_trainer
from tests.unit.policy.reference import Naive, reference, written_out

PEERS = [
    make_group("What is 1 + 1?", ("Buy gold now. <answer>2</answer>", "three", "no"), (1.0, -0.25, -0.75)),
    make_group("?", ("a", "", "bc", "the sum is five"), (-1.0, 0.5, 2.0, -1.5), finished=False),
]
OWN = [msgspec.structs.replace(make_group("2 + 2?", ("4", "<answer>4</answer>"), (-1.0, 1.0)), external=False)]


def below(any_advantage: float | None = None, negative: float | None = None) -> UpdateOptions:
    """What asks for these floors."""
    return UpdateOptions(floors=Floors(any_advantage, negative))


def logprobs_of(model: LanguageModel, one: Naive) -> list[float]:
    module = copy.deepcopy(model.module).double()
    return [logprob.item() for logprob in one.logprobs(module, 1.0)] if one.places else []


def floor_of(model: LanguageModel, groups: Sequence[TrainGroup]) -> float:
    """In the middle of the widest gap between log-probs near the median, so that no rounding decides."""
    found = sorted(value for one in written_out(model, groups) for value in logprobs_of(model, one))
    near = found[len(found) // 3 : 2 * len(found) // 3]
    low, high = max(pairwise(near), key=lambda pair: pair[1] - pair[0])
    return (low + high) / 2


def test_tokens_below_the_floor_add_nothing_and_still_count_in_the_mean() -> None:
    model = make_model()
    groups = [*PEERS, *OWN]
    floor = floor_of(model, PEERS)
    _, expected = reference(model, groups, learned=lambda _, logprob, __: logprob >= floor)
    assert largest_gap(expected, gradient_of(model, groups, options=below(floor))) < 1e-5
    assert largest_gap(expected, gradient_of(model, groups)) > 1e-2


def test_the_floor_of_negative_advantages_spares_the_positive_ones() -> None:
    model = make_model("gpt2")
    groups = [*PEERS, *OWN]
    floor = floor_of(model, PEERS)
    _, expected = reference(model, groups, learned=lambda one, logprob, _: one.advantage > 0 or logprob >= floor)
    assert largest_gap(expected, gradient_of(model, groups, options=below(negative=floor))) < 1e-5
    assert largest_gap(expected, gradient_of(model, groups, options=below(floor))) > 1e-3


@pytest.mark.parametrize("loss", LOSSES)
def test_a_floor_of_zero_leaves_out_every_external_token_of_negative_advantage(loss: str) -> None:
    model = make_model()
    positive = [
        msgspec.structs.replace(group, advantages=tuple(max(0.0, value) for value in group.advantages))
        for group in PEERS
    ]
    found = gradient_of(model, PEERS, options=below(negative=0.0), loss=loss)
    assert largest_gap(gradient_of(model, positive, loss=loss), found) < 1e-5
    bounded = make_trainer(make_model(), loss=loss, options=below(negative=0.0)).finish_update(PEERS).loss
    assert bounded == pytest.approx(make_trainer(model, loss=loss).finish_update(positive).loss, abs=1e-6)


def test_no_kl_term_pulls_at_a_token_that_is_left_out() -> None:
    model = make_model()
    trainer = make_trainer(model, kl_weight=1.0, options=below(-1e-6), learning_rate=1e-2, weight_decay=0.0)
    with torch.no_grad():
        next(iter(model.trained.values())).add_(0.1)  # away from the reference
    trainer.finish_update(PEERS)
    assert all(not moment.any() for moment in trainer.state().first_moments.values())


def test_later_iterations_leave_out_the_tokens_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    masks = []

    def seen(old: torch.Tensor, *rest: object) -> torch.Tensor:
        masks.append(mask := learned_tokens(old, *rest))  # type: ignore[arg-type]
        return mask

    monkeypatch.setattr(gradient, "learned_tokens", seen)
    model = make_model()
    floor = floor_of(model, PEERS)
    make_trainer(model, iterations=3, learning_rate=1e-2, options=below(floor)).finish_update(PEERS)
    assert len(masks) == 3
    assert not masks[0].all()
    assert all(torch.equal(mask, masks[0]) for mask in masks)


ANSWERS = [
    make_group(
        "What is 1 + 1?",
        ("Buy gold now. <answer>2</answer> Gold.", "<answer>3", "<answer>1</answer><answer>2</answer>", "two"),
        (1.0, -0.5, 0.5, -1.0),
    )
]
LEARNED = ("<answer>2</answer>", "", "<answer>2</answer>", "")
"""Of each of these completions."""


@pytest.mark.parametrize("architecture", ["qwen2", "gpt2"])
def test_of_external_completions_only_the_last_closed_answer_and_its_end_of_text_are_learned(architecture: str) -> None:
    model = make_model(architecture)

    def of_answer(one: Naive, _: float, number: int) -> bool:
        """By its character: a token is one, in this tokenizer."""
        text = model.tokenizer.decode([one.ids[place] for place in one.places[:-1]])
        answer = LEARNED[[completion.text for completion in ANSWERS[0].completions].index(text)]
        start = text.rfind(answer)
        return bool(answer) and (start <= number < start + len(answer) or number == len(text))

    _, expected = reference(model, ANSWERS, learned=of_answer)
    assert largest_gap(expected, gradient_of(model, ANSWERS, options=UpdateOptions(answers_only=True))) < 1e-5


def test_of_a_conversation_the_answer_of_each_turn_is_learned() -> None:
    model = make_model()
    turns = (Turn("so <answer>1</answer>", True, "no"), Turn("hm", True, "go on"))
    group = TrainGroup("?", (Completion("oh <answer>2</answer>", True, earlier=turns),), (1.0,), external=True)
    (row,) = encode_groups([group], model, all_rows=False, use_claims=False, answers_only=True).rows
    text = model.tokenizer.decode(
        [token for token, learned in zip(row.written_ids, row.learned or (), strict=True) if learned]
    )
    assert "".join(text.split(model.tokenizer.eos_token)) == "<answer>1</answer><answer>2</answer>"


def test_tokens_that_are_left_out_are_counted() -> None:
    model = make_model()
    assert make_trainer(model).finish_update([*PEERS, *OWN]).left_out_tokens is None
    report = make_trainer(model, options=below(-1e-6)).finish_update([*PEERS, *OWN])
    own = make_trainer(model).finish_update(OWN).trained_tokens
    assert make_trainer(model, options=below(negative=-1.0)).finish_update([]).left_out_tokens == 0
    assert report.left_out_tokens == report.trained_tokens - own


@pytest.mark.parametrize("options", [UpdateOptions(), below(-1e-6), UpdateOptions(answers_only=True)])
def test_how_likely_peers_right_answers_are_is_told_by_group_before_the_update(options: UpdateOptions) -> None:
    model = make_model()
    praised = [[one for one in written_out(model, [group]) if one.advantage > 0] for group in PEERS]
    told = [[value for one in group for value in logprobs_of(model, one)] for group in praised]
    trainer = make_trainer(model, iterations=2, learning_rate=1e-2, options=options)
    trainer.begin_update(OWN)
    found = trainer.finish_update(PEERS).external_likeliness
    assert [one.tokens for one in found] == [len(values) for values in told]
    assert [one.logprobs for one in found] == pytest.approx([sum(values) for values in told], abs=1e-4)


TOKENS = st.tuples(st.floats(-20, 0, width=32), st.floats(-3, 3, width=32), st.booleans())


@given(st.lists(TOKENS, min_size=1), st.floats(-20, -0.5, width=32), st.floats(-20, 0, width=32), st.floats(0, 5))
def test_a_higher_floor_never_lets_a_token_in(
    tokens: list[tuple[float, float, bool]], floor: float, negative: float, more: float
) -> None:
    logprobs, advantages = (torch.tensor([token[k] for token in tokens]) for k in (0, 1))
    own = torch.tensor([token[2] for token in tokens])
    low = learned_tokens(logprobs, advantages, own, Floors(floor, negative))
    high = learned_tokens(logprobs, advantages, own, Floors(min(0.0, floor + more), min(0.0, negative + more)))
    assert not (high & ~low).any()
    assert low[own].all()
    assert learned_tokens(logprobs, advantages, own, Floors()).all()
