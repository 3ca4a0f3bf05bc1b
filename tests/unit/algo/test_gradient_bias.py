"""Estimates of the bias of external gradients: against simulations whose bias is known, and against sums by hand."""

from __future__ import annotations

from math import sqrt
from random import Random
from statistics import fmean, stdev

import pytest

from swarm.algo.gradient_bias import GradientProducts, estimated, halves
from swarm.types import GradientEstimate

OWN = (1.0, 0.5, -0.25)
SPREAD = 1.5
Vector = tuple[float, ...]


def inner(left: Vector, right: Vector) -> float:
    return sum(x * y for x, y in zip(left, right, strict=True))


def total(groups: list[Vector]) -> Vector:
    return tuple(map(sum, zip(*groups, strict=True))) if groups else (0.0,) * len(OWN)


def added(left: Vector, right: Vector) -> Vector:
    return total([left, right])


def products_of(own: list[Vector], external: list[Vector]) -> GradientProducts:
    """As an update takes them."""
    (n_a, n_b), (n_e, n_f) = halves(len(own)), halves(len(external))
    a, b, e, f = total(own[:n_a]), total(own[n_a:]), total(external[:n_e]), total(external[n_e:])
    across = inner(added(a, b), added(e, f))
    return GradientProducts((n_a, n_b), (n_e, n_f), inner(a, a), inner(a, b), inner(b, b), across, inner(e, f))


def simulated(rng: Random, own: int, external: int, mean: Vector) -> GradientEstimate:
    """One round whose external groups have this mean, and own ones OWN."""

    def draw(count: int, around: Vector) -> list[Vector]:
        return [tuple(rng.gauss(value, SPREAD) for value in around) for _ in range(count)]

    return estimated(products_of(draw(own, OWN), draw(external, mean)))


def assert_unbiased(found: list[float | None], expected: float) -> None:
    values = [value for value in found if value is not None]
    assert len(values) == len(found)
    error = stdev(values) / sqrt(len(values))
    assert abs(fmean(values) - expected) < 4 * error, f"{fmean(values)} +- {error}, expected {expected}"


@pytest.mark.parametrize(
    ("own", "external", "mean"),
    [(2, 2, OWN), (3, 5, (1.0, 1.5, -0.25)), (6, 2, (-1.0, -0.5, 0.25)), (3, 2, (0.0, 0.0, 0.0))],
)
def test_the_mean_over_rounds_is_what_the_gradients_were_drawn_with(own: int, external: int, mean: Vector) -> None:
    rng = Random(f"{mean} {own} {external}")
    rounds = [simulated(rng, own, external, mean) for _ in range(4000)]
    bias = sum((x - y) ** 2 for x, y in zip(OWN, mean, strict=True))
    assert_unbiased([found.bias for found in rounds], bias)
    assert_unbiased([found.noise for found in rounds], len(OWN) * SPREAD**2)
    assert_unbiased([found.square for found in rounds], inner(OWN, OWN))
    assert_unbiased([found.alignment for found in rounds], inner(OWN, mean))


def test_without_noise_a_single_round_tells_all() -> None:
    found = estimated(products_of([(3.0, 0.0, 4.0)] * 3, [(0.0, 0.0, 4.0)] * 2))
    assert found == pytest.approx((25.0, 0.0, 16.0, 9.0))


@pytest.mark.parametrize(
    ("own", "external", "known"),
    [
        (0, 4, set()),
        (1, 0, set()),
        (1, 1, {"alignment"}),
        (2, 0, {"square", "noise"}),
        (2, 1, {"square", "noise", "alignment"}),
        (1, 2, {"alignment"}),
        (2, 2, {"square", "noise", "alignment", "bias"}),
    ],
)
def test_what_too_few_groups_do_not_tell_is_left_out(own: int, external: int, known: set[str]) -> None:
    found = simulated(Random(0), own, external, OWN)
    assert {name for name, value in found._asdict().items() if value is not None} == known
