"""The steps of a round hand one frozen record each to the next.

    OpenedRound ─▶ Sampled ─▶ Own ─▶ (bytes published) ─▶ External ─▶ Updated ─▶ PlayedRound, for its row (row.py)

The one thing that changes is OwnHalf: with staleness the own groups of a round are made while another round is played,
and whoever needs them waits for its events.

IJSchedule says I and J of each round: fixed by the settings, or by an adaptive rule that follows the node's own rows.

    metrics rows ─observe─▶ rule ─of(round)─▶ Split

The split of a round follows from the rows of the rounds before it, `staleness` of them left out, since with staleness a
round is generated before the one before it is done. So it is the same whether the node was restarted in between or not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import anyio
from msgspec import UNSET

from swarm.algo.adaptive_rule import RoundSignals, Rule, RuleSettings, Split, rounded_split
from swarm.algo.drawing import EMPTY, DrawnSample
from swarm.algo.registry import adaptive_rule
from swarm.algo.seeds import derive_random
from swarm.config import Settings
from swarm.errors import ProtocolError
from swarm.node.worker.events import Train
from swarm.store.base import Room
from swarm.tasks.scoring import GroupScore
from swarm.types import MemoryUse, RolloutGroup, RoundKey, ScoredGroup, TrainReport
from swarm.wire.messages import MetricsRow

Scores = dict[int, GroupScore | ProtocolError]
"""By slot."""
Seconds = dict[str, float]
"""The stopwatch of a round: seconds by step (generate, score, publish, gather, train)."""


@dataclass(frozen=True)
class OpenedRound:
    """Says which round has begun, and when; times are monotonic seconds."""

    key: RoundKey
    split: Split
    """I and J of the round."""
    clock: str = "coordinator"
    """Who opened the round: a `coordinator`, or the node on its `own`."""
    started: float = 0.0
    before: float = 0.0
    """When this node's round before it had ended."""


@dataclass(frozen=True)
class Sampled:
    """Holds the own groups as the policy wrote them now, or in a former life that died in this round."""

    key: RoundKey
    groups: Sequence[RolloutGroup]
    rounds_trained: int
    """Updates behind the policy that generated them."""
    ahead: bool = False
    """They were generated before the round was open, one update earlier."""
    scores: Scores = field(default_factory=dict)
    """Of `groups`, as far as dynamic sampling had to know them."""
    published: bool = False
    """The node died in this round after it had published: its groups are in the folder."""
    earlier: Mapping[int, str] = field(default_factory=dict)
    """Slot -> SHA-256 of the groups that were published before the file that names them."""
    bytes_published: int = 0
    adopted: bool = False
    """They were taken from what is published, since the policy did not write the same again."""


@dataclass(frozen=True)
class Own:
    """Holds the own groups with what they are worth."""

    sampled: Sampled
    groups: Sequence[ScoredGroup]
    killed: int = 0
    """Answers whose scoring had to be killed."""
    errors: int = 0


@dataclass(frozen=True)
class External:
    """Holds the external groups that were drawn."""

    groups: Sequence[ScoredGroup] = ()
    sample: DrawnSample = EMPTY
    """What was looked at of the pool."""


@dataclass(frozen=True)
class Updated:
    """Says what the update did, and how full device and place were then."""

    report: TrainReport | None = None
    memory: MemoryUse | None = None
    room: Room | None = None


@dataclass(frozen=True)
class PlayedRound:
    """Holds a whole round, as its row tells it."""

    opened: OpenedRound
    own: Own
    bytes_published: int = 0
    drawn: External = field(default_factory=External)
    gathered: Train | None = None
    """How the gathering ended; None: nobody was waited for."""
    updated: Updated = field(default_factory=Updated)
    seconds: Mapping[str, float] = field(default_factory=lambda: defaultdict(float))
    measured: Sequence[ScoredGroup] = ()
    """The own groups that the round's reward is the mean of."""

    @property
    def key(self) -> RoundKey:
        """The round and stage."""
        return self.opened.key


def measured(settings: Settings, local: int, own: Sequence[ScoredGroup]) -> Sequence[ScoredGroup]:
    """Returns the groups that a round's reward is measured on: those of the first `local` slots, where more may follow.

    own_groups.py says why.
    """
    return own if settings.dynamic_sampling == 1 else [scored for scored in own if scored.group.slot < local]


@dataclass
class OwnHalf:
    """Follows the own groups of a round on their way: made in it, or ahead of it while the round before is played.

    queued ─▶ the update before may go on      scored ─▶ `own` is there      begun ─▶ their gradients are added up
    """

    key: RoundKey
    split: Split
    ahead: bool = False
    seconds: Seconds = field(default_factory=lambda: defaultdict(float))
    sampled: Sampled | None = None
    own: Own | None = None
    queued: anyio.Event = field(default_factory=anyio.Event)
    """Set when the generation is in the executor's queue, or needs none."""
    scored: anyio.Event = field(default_factory=anyio.Event)
    """Set when `own` is there, or never will be."""
    begun: anyio.Event = field(default_factory=anyio.Event)
    """Set when the gradients of `own` are added up."""
    is_new: bool = False
    """Its completions were all written in this life: the seconds are those of a whole round."""
    skipped: bool = False
    """It was prepared ahead, and then the clock left its round out."""

    def skip(self) -> None:
        """Give it up: nobody waits for it, and its gradients are not added up any more."""
        self.skipped = True
        self.scored.set()


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
        return rounded_split(total, wanted, None if getattr(rule, "to_nearest", False) else rng)

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
