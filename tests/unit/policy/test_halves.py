"""The gradient in halves: the same update, and inner products as of gradients that are taken apart."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from swarm.algo.gradient_bias import GradientProducts, estimated
from swarm.policy.model import LanguageModel
from swarm.policy.parts import UpdateOptions
from swarm.policy.policy import make_policy
from swarm.policy.settings import GrpoConfig
from swarm.types import TrainGroup, TrainReport
from tests.unit.policy.factories import largest_gap, make_group, make_model, make_trainer

QUIET = make_group("2 + 2?", ("four", "4", "four"), None)
EXTERNAL = [
    make_group(),
    QUIET,
    make_group("Say something long, please: " + "x" * 30, ("y" * 20, "<answer>1</answer>"), (0.5, -0.5)),
    make_group("?", ("a", "", "bc", "d" * 33, "e"), (-1.0, 0.5, 0.0, 2.0, -1.5), finished=False),
]


def own_groups(model: LanguageModel) -> list[TrainGroup]:
    """Three with an advantage, and one without."""
    prompts = ["short", "nothing to learn", "a question of more length", "What is the sum of 14 and 15, and why?"]
    groups = make_policy(model, GrpoConfig()).generate(prompts, group_size=4, seed=0)
    advantages = [(1.0, -0.5, 0.25, -0.75), (0.0,) * 4, (-1.0, 1.0, 0.5, -0.5), (0.5, 0.5, -2.0, 1.0)]
    return [TrainGroup(*one) for one in zip(prompts, groups, advantages, strict=True)]


def updated(
    model: LanguageModel, own: list[TrainGroup], external: list[TrainGroup], **settings: Any
) -> tuple[TrainReport, dict[str, torch.Tensor]]:
    """The report of one update, and Adam's first moment after it, in proportion to the gradient; weights stay."""
    before = {name: tensor.clone() for name, tensor in model.module.state_dict().items()}
    trainer = make_trainer(model, **settings)
    trainer.begin_update(own)
    report = trainer.finish_update(external)
    model.module.load_state_dict(before)
    return report, trainer.state().first_moments


def summed(model: LanguageModel, groups: list[TrainGroup]) -> torch.Tensor:
    """The gradient of these groups by themselves, summed over tokens, as one vector in fp64."""
    if not any(any(group.advantages) for group in groups):
        return torch.zeros(())
    report, moments = updated(model, groups, [])
    return torch.cat([moment.double().flatten() for moment in moments.values()]) * 10 * report.tokens


def expected(model: LanguageModel, own: list[TrainGroup], external: list[TrainGroup]) -> Any:
    """From gradients that are taken one by one; the first half of an odd number has one more."""
    a, b = summed(model, own[:-1]), summed(model, own[-1:])
    e, f = summed(model, external[:-1]), summed(model, external[-1:])
    products = GradientProducts((2, 1), (2, 1), a @ a, a @ b, b @ b, (a + b) @ (e + f), e @ f)  # type: ignore[arg-type]
    return pytest.approx([float(value) for value in estimated(products) if value is not None], rel=1e-4)


def test_the_update_is_the_one_that_is_not_measured() -> None:
    model = make_model()
    own = own_groups(model)
    plain, moments = updated(model, own, EXTERNAL)
    measured, halved = updated(model, own, EXTERNAL, options=UpdateOptions(halves=True))
    assert largest_gap(moments, halved) < 1e-5
    assert plain.gradient is None
    assert not plain.external_alignment
    same = ("tokens", "trained_tokens", "updated", "groups_too_long")
    assert all(getattr(plain, name) == getattr(measured, name) for name in same)
    assert measured.loss == pytest.approx(plain.loss, abs=1e-6)


def test_what_is_measured_of_all_and_of_each_external_group_is_what_gradients_taken_apart_say() -> None:
    model = make_model()
    own = own_groups(model)
    report, _ = updated(model, own, EXTERNAL, options=UpdateOptions(halves=True))
    assert report.gradient is not None
    assert list(report.gradient) == expected(model, own, EXTERNAL)
    mean = summed(model, own) / 3
    apart = [float(mean @ summed(model, [group])) for group in EXTERNAL if any(group.advantages)]
    assert math.isnan(report.external_alignment[1]), "it has no gradient"
    found = [value for value in report.external_alignment if not math.isnan(value)]
    assert found == pytest.approx(apart, rel=1e-4)
    assert report.gradient.alignment == pytest.approx(sum(apart) / 3, rel=1e-4)
