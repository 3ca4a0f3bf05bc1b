"""The gradient of an update in parts: own groups in two halves, external ones in two halves and one by one.

    own A ──add──▶ sum 1 ──▶ own B ──add──▶ sum 2, own ──▶ external E ──add──▶ sum 3 ──▶ external F ──add──▶ sum 4

What is in the parameters' `.grad` is always the sum of all that was added, as in an update that is not measured; a part
is the difference of two such sums. Two copies of it are held at the most (sum 2 and sum 3), in fp32 on the device: 8
bytes for each trained weight. What they are for: swarm.algo.gradient_bias.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

import torch
from torch import Tensor

from swarm.algo.gradient_bias import GradientProducts, estimated, halves
from swarm.policy.batch import BatchRow
from swarm.policy.gradient import GradientSum, inner_product
from swarm.types import GradientEstimate


class MeasuredHalves:
    """Adds rows to a gradient in parts, and takes the inner products of these."""

    def __init__(self, gradient: GradientSum) -> None:
        self._gradient = gradient
        self.clear()

    def clear(self) -> None:
        """Forget all parts."""
        self._own: tuple[int, int] = (0, 0)
        self._external: tuple[int, int] = (0, 0)
        self._held: list[Tensor] = []
        """The sum over own groups; empty: there are none."""
        self._products: dict[str, Tensor] = {}
        self._alongside: dict[int, Tensor] = {}
        """External group -> inner product of its gradient with the sum over own groups."""

    def add_own(self, rows: Sequence[BatchRow]) -> None:
        """Add the own groups of an update, all of them. Raises as GradientSum.add."""
        groups = _by_group(rows)
        self._own = first, second = halves(len(groups))
        if not first:
            return
        self._gradient.add(_joined(groups[:first]))
        begun = self._held = self._gradient.copied()
        if second:
            self._gradient.add(_joined(groups[first:]))
            self._held = self._gradient.copied()
        one, both, whole = _inner(begun, begun), _inner(begun, self._held), _inner(self._held, self._held)
        self._products |= {"first": one, "between": both - one, "second": whole - 2 * both + one}

    def add_external(self, rows: Sequence[BatchRow]) -> None:
        """Add the external groups, after the own ones. Raises as GradientSum.add."""
        if not self._held:
            self._gradient.add(rows)
            return
        groups = _by_group(rows)
        self._external = first, second = halves(len(groups))
        begun = self._gradient.inner(self._held)
        self._add_each(groups[:first])
        middle = self._gradient.copied() if second else []
        self._add_each(groups[first:])
        self._products["across"] = self._gradient.inner(self._held) - begun
        if second:
            self._products["outside"] = self._outside(middle)

    def _add_each(self, groups: Sequence[Sequence[BatchRow]]) -> None:
        for group in groups:
            before = self._gradient.inner(self._held)
            self._gradient.add(group)
            self._alongside[group[0].group] = self._gradient.inner(self._held) - before

    def _outside(self, middle: list[Tensor]) -> Tensor:
        """E.F, of the sums before, between and after them."""
        after_middle = self._gradient.inner(middle) - _inner(middle, middle)
        return after_middle - self._gradient.inner(self._held) + _inner(self._held, middle)

    def estimate(self, first: int, external: int) -> tuple[GradientEstimate, tuple[float, ...]]:
        """Returns what the parts say, and the alignment of each external group, as in TrainReport.

        Args:
            first: number of the first external group.
            external: how many there are, those without a gradient included.
        """
        values = dict(zip(self._products, _read([*self._products.values()]), strict=True))
        alongside = dict(zip(self._alongside, _read([*self._alongside.values()]), strict=True))
        products = GradientProducts(own=self._own, external=self._external, **values)
        own = sum(self._own)
        aligned = tuple(alongside[n] / own if n in alongside else math.nan for n in range(first, first + external))
        return estimated(products), aligned


def _inner(left: Sequence[Tensor], right: Sequence[Tensor]) -> Tensor:
    return inner_product([*zip(left, right, strict=True)])


def _read(values: Sequence[Tensor]) -> list[float]:
    return torch.stack([*values]).tolist() if values else []


def _by_group(rows: Sequence[BatchRow]) -> list[list[BatchRow]]:
    """Returns the rows of each group, in the groups' order."""
    return [list(found) for _, found in groupby(rows, key=attrgetter("group"))]


def _joined(groups: Sequence[Sequence[BatchRow]]) -> list[BatchRow]:
    return [row for group in groups for row in group]
