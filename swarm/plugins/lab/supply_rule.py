"""The supply rule: the split whose gradient is best, if the whole swarm chooses it.

What a slot is worth. An update learns from informative groups alone, those whose rewards differ. An own question gives
one with probability p, which is small at the start (all wrong) and at the end (all right). An external slot gives one
with certainty, since SAPO filters before it samples, as long as the pool holds that many. n nodes with N slots, each
with I own questions and J = N - I external slots: the pool of a node holds X ~ Binomial((n - 1) I, q) informative
groups, q being the p of its peers, so that it trains on

    M = p I + E,  E = E[min(J, X)]

of them. The variance of its gradient goes with 1 / M. But the E external ones were written by other policies and are
trained on as if they were its own, which is a bias that goes with their share E / M. So the rule takes the J with the
least squared error, in units of one group's variance:

    1 / M + SHARED_BIAS (E / M)^2

What comes out, for eight nodes with N = 8: J = 1 where one group in two hundred is informative, 2 at p = 0.02, 4 at
0.2, 5 at 0.4, 2 at 0.7 and 0 at 1. While rewards are rare, questions are what the swarm lacks; then slots; and where
there is enough to learn at home, a group of one's own is better than another's. p, q and n - 1 are moving averages.

The free rider. What the pool holds now says what suits one node if the others stay as they are: to read nearly all of
it, and ask little. But when all of them do, they read what nobody asks. So the pool above is what it would be if the
peers chose the same I. The estimate of q is the same at every split, so there is nothing to oscillate. Where peers ask
fewer questions than that (they read only, or their split is fixed), slots would stay empty: so J is never more than
what is best for the pool as it is.

SHARED_BIAS was never measured. `supply-measured` has in its place what was: the quotient of the means over rounds of
the estimated squared bias and of the estimated variance of one group's gradient (swarm.algo.gradient_bias), not below
0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Self

from swarm.algo.adaptive_rule import NO_VALUES, RoundSignals, RuleSettings, RunningMean
from swarm.algo.sampling import expected_taken

SHARED_BIAS = 0.1
"""Squared bias of an update on external groups alone, in units of the variance of one group's gradient: with ten groups
of other policies it would equal their noise. It decides only where there is plenty of both kinds."""

ENOUGH_ROUNDS = 5
"""Rounds with an estimate before it takes the place of SHARED_BIAS: the estimate of one alone is mostly noise."""


@dataclass(frozen=True)
class Supply:
    """The best J for what questions yield at home and in the pool; all averages have the memory 1 - alpha."""

    settings: RuleSettings
    peers: RunningMean = NO_VALUES
    pool: RunningMean = NO_VALUES
    """Groups in it."""
    informative: RunningMean = NO_VALUES
    """Informative ones among these."""
    own: RunningMean = NO_VALUES
    """Informative share of own groups."""
    baseline: None = None

    def wanted(self, rng: Random) -> float:
        if not self.peers.count:
            return self.settings.initial_j
        together = self._best(lambda external: round(self.peers.value * (self.settings.total - external)))
        alone = self._best(lambda external: round(self.pool.value))
        return float(min(together, alone))

    def _best(self, offered: Callable[[int], int]) -> int:
        """Returns the J of least error, the smaller one of equals, if the pool holds offered(J) groups."""
        allowed = range(self.settings.min_j, self.settings.max_j + 1)
        return min(allowed, key=lambda external: (self._error(external, offered(external)), external))

    def _error(self, external: int, offered: int) -> float:
        own = self.own.value * (self.settings.total - external)
        shared = expected_taken(external, offered, self._pool_share)
        if not own + shared:
            return math.inf
        return round(1 / (own + shared) + self._shared_bias * (shared / (own + shared)) ** 2, 9)

    @property
    def _shared_bias(self) -> float:
        """Squared bias of an update on external groups alone, in units of the variance of one group's gradient."""
        return SHARED_BIAS

    @property
    def _pool_share(self) -> float:
        """q; never less than if all rounds together had held half an informative group."""
        if not self.pool.value:
            return 0.0
        return min(1.0, max(self.informative.value, 0.5 / self.informative.count) / self.pool.value)

    def observe(self, seen: RoundSignals) -> Self:
        alpha, own = self.settings.alpha, self.own
        if seen.local_groups:
            own = own.updated(seen.local_informative / seen.local_groups, alpha)
        return replace(
            self,
            peers=self.peers.updated(seen.peers, alpha),
            pool=self.pool.updated(seen.pool_groups, alpha),
            informative=self.informative.updated(seen.pool_informative, alpha),
            own=own,
        )


@dataclass(frozen=True)
class SupplyMeasured(Supply):
    """`supply` with the bias that was measured; both averages have the memory 1 - alpha, over rounds that have both."""

    bias: RunningMean = NO_VALUES
    noise: RunningMean = NO_VALUES

    @property
    def _shared_bias(self) -> float:
        if self.bias.count < ENOUGH_ROUNDS or self.noise.value <= 0:
            return SHARED_BIAS
        return max(0.0, self.bias.value / self.noise.value)

    def observe(self, seen: RoundSignals) -> Self:
        after = super().observe(seen)
        if seen.gradient_bias is None or seen.gradient_noise is None:
            return after
        alpha = self.settings.alpha
        return replace(
            after,
            bias=self.bias.updated(seen.gradient_bias, alpha),
            noise=self.noise.updated(seen.gradient_noise, alpha),
        )
