"""I and J of each round of one node: fixed by the settings, or by an adaptive rule that follows the node's own rows.

    metrics rows ─observe─▶ rule ─of(round)─▶ Split

The split of a round follows from the rows of the rounds before it, `staleness` of them left out, since with staleness a
round is generated before the one before it is done. So it is the same whether the node was restarted in between or not.
"""

from __future__ import annotations

from msgspec import UNSET

from swarm.algo.adaptive_rule import RoundSignals, Rule, RuleSettings, Split, nearest_split, rounded_split
from swarm.algo.registry import adaptive_rule
from swarm.algo.seeds import derive_random
from swarm.config import Settings
from swarm.types import RoundKey
from swarm.wire.messages import MetricsRow


class IJSchedule:
    """Decides, and says on the metrics row what was decided."""

    def __init__(self, settings: Settings, node_id: str) -> None:
        """Raises ConfigError if the rule is one of the user's own and cannot be had."""
        self._settings = settings
        self._node_id = node_id
        before = -1 - settings.staleness
        self._rules: list[tuple[int, Rule]] = [(before, make_rule(settings))] if settings.adaptive else []
        """The rule after each of the last rounds, and which round that was; none without a rule."""

    def observe(self, row: MetricsRow) -> None:
        """One more round is done; rounds come in their order. Its last stage is the round's: all have one split."""
        if self._rules and row.stage == self._settings.max_stages - 1:
            newest = self._rules[-1][1]
            kept = self._rules[-self._settings.staleness :] if self._settings.staleness else []
            self._rules = [*kept, (row.round, newest.observe(signals_of(row)))]

    def of(self, key: RoundKey) -> Split:
        """Returns the split of a round that comes after all that was observed, or is generated ahead."""
        if not self._rules:
            return Split(self._settings.local_groups, self._settings.external_groups, self._settings.external_groups)
        rng = derive_random(self._settings.seed, "split", self._node_id, key.round, 0)
        rule = [rule for round_, rule in self._rules if round_ + self._settings.staleness < key.round][-1]
        total, wanted = self._settings.total_groups, rule_settings(self._settings).within(rule.wanted(rng))
        return nearest_split(total, wanted) if getattr(rule, "to_nearest", False) else rounded_split(total, wanted, rng)

    def fill(self, row: MetricsRow, split: Split) -> None:
        """Fills the row's columns about the split, before the row itself is observed."""
        row.external_wanted = split.external
        if not self._rules:
            return
        row.adaptive_I, row.adaptive_J, row.adaptive_J_continuous = split
        row.adaptive_round_reward = row.my_reward
        if (baseline := self._rules[-1][1].baseline) is not None:
            row.adaptive_baseline = baseline


def make_rule(settings: Settings) -> Rule:
    """Returns the rule that the settings name, as it is before the first round. Raises ConfigError if there is none."""
    return adaptive_rule(settings.adaptive_rule)(rule_settings(settings))


def rule_settings(settings: Settings) -> RuleSettings:
    """Returns those settings that an adaptive rule may know."""
    return RuleSettings(
        total=settings.total_groups,
        initial_j=settings.initial_j,
        alpha=settings.adaptive_alpha,
        memory=settings.adaptive_baseline_alpha,
        min_j=settings.adaptive_min_j,
        max_j=settings.max_j,
    )


def signals_of(row: MetricsRow) -> RoundSignals:
    """Returns those figures of a round's row that an adaptive rule may know."""
    return RoundSignals(
        round=row.round,
        reward=row.my_reward,
        reward_std=row.reward_std,
        train_reward=row.train_reward,
        grad_norm=row.grad_norm,
        local_groups=row.local_groups,
        local_informative=row.local_groups - round(row.local_groups * row.zero_advantage_local),
        external_wanted=row.external_wanted,
        external_groups=row.external_groups,
        peers=row.peers_heard,
        pool_groups=row.pool_groups,
        pool_informative=row.pool_informative,
        pool_reward=row.pool_reward,
        gradient_noise=None if row.gradient_noise is UNSET else row.gradient_noise,
        gradient_bias=None if row.gradient_bias is UNSET else row.gradient_bias,
    )
