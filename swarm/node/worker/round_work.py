"""The data of one round of one worker, as far as it has come, and the metrics row that is made of it.

Columns are fields of swarm.wire.metrics.MetricsRow, so that the type checker knows their names and types.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, pstdev

import anyio
from msgspec import UNSET, UnsetType

from swarm.algo.adaptive_rule import Split
from swarm.algo.advantages import Scaling, group_advantages, is_informative
from swarm.algo.drawing import EMPTY, Sample
from swarm.node.sharing.trained_groups import name_of
from swarm.node.worker.dynamic_sampling import Scores, measured
from swarm.store.health import Room
from swarm.tasks.scoring import FULL_ANSWER
from swarm.types import Likeliness, MemoryUse, RolloutGroup, RoundKey, ScoredGroup, TrainGroup, TrainReport
from swarm.wire.metrics import MetricsRow

MOST_BYTES = 10**12
"""The largest size that a row says; readers take no larger one."""


@dataclass
class RoundWork:
    """Filled from left to right as the round goes on; times are monotonic seconds."""

    key: RoundKey
    split: Split
    """I and J of the round."""
    ahead: bool = False
    """Generated before the round was open, one update earlier."""
    clock: str = "coordinator"
    """Who opened the round: a `coordinator`, or the node on its `own`."""
    started: float = 0.0
    waited: float = 0.0
    """Seconds between the end of the round before and the start of this one."""
    groups: list[RolloutGroup] = field(default_factory=list)
    skipped: bool = False
    """Prepared ahead, and then the clock left this round out."""
    published: bool = False
    """The node died in this round after it had published: its groups are in the folder."""
    earlier: dict[int, str] = field(default_factory=dict)
    """Slot -> SHA-256 of the groups that were published before the file that names them."""
    named: Mapping[int, str] = field(default_factory=dict)
    """As the file says that a former life published."""
    adopted: bool = False
    """They were taken from there, since the policy did not write the same again."""
    rounds_trained: int = 0
    """Updates behind the policy that generated the groups."""
    own: list[ScoredGroup] = field(default_factory=list)
    scores: Scores = field(default_factory=dict)
    """Of `groups`, as far as dynamic sampling had to know them."""
    attempts: int = 1
    """How often questions may be drawn for the groups without a signal, the first time included."""
    queued: anyio.Event = field(default_factory=anyio.Event)
    """Set when the generation is in the executor's queue, or needs none."""
    scored: anyio.Event = field(default_factory=anyio.Event)
    """Set when `own` is complete."""
    begun: anyio.Event = field(default_factory=anyio.Event)
    """Set when the gradients of `own` are added up."""
    external: list[ScoredGroup] = field(default_factory=list)
    sample: Sample = EMPTY
    """What was looked at of the pool."""
    heard: frozenset[str] = frozenset()
    """Peers who had published, or whose files were not to be read."""
    awaited: frozenset[str] = frozenset()
    """Live peers that were worth waiting for when the gathering ended."""
    timed_out: bool = False
    late: bool = False
    report: TrainReport | None = None
    memory: MemoryUse | None = None
    """Of the device after the update."""
    room: Room | None = None
    """Of the shared place, then."""
    averaged: dict[str, str] | None = None
    """Node -> SHA-256 of the weights whose mean was taken after the update; None: none was due."""
    weights_fetched: int = 0
    """Bytes of peers' weights."""
    bytes_published: int = 0
    killed: int = 0
    errors: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By step: generate, score, publish, gather, train."""
    gather_from: float = 0.0

    @property
    def my_reward(self) -> float:
        """Mean reward per completion on the own questions."""
        return mean(reward for scored in self.measured for reward in scored.rewards)

    @property
    def measured(self) -> Sequence[ScoredGroup]:
        """The own groups that the round's reward is measured on."""
        return measured(self.own, self.split.local, self.attempts)


def mean(values: Iterable[float]) -> float:
    """Arithmetic mean, 0.0 of nothing."""
    collected = list(values)
    return fmean(collected) if collected else 0.0


def to_train(groups: Iterable[ScoredGroup], *, external: bool, scaling: Scaling) -> list[TrainGroup]:
    """Rewards become group-relative advantages."""
    return [
        TrainGroup(
            prompt=scored.group.question.prompt,
            completions=scored.group.completions,
            advantages=group_advantages(scored.rewards, scaling),
            external=external,
            tokenizer=scored.group.tokenizer,
        )
        for scored in groups
    ]


def mean_rewards(groups: Iterable[ScoredGroup]) -> dict[str, float]:
    """Mean verified reward per completion, by peer."""
    by_peer: dict[str, list[float]] = defaultdict(list)
    for scored in groups:
        by_peer[scored.group.peer_id].extend(scored.rewards)
    return {peer: mean(rewards) for peer, rewards in by_peer.items()}


def metrics_row(
    work: RoundWork, *, timestamp: float, node_id: str, experiment: str, total_agents: int, model: str
) -> MetricsRow:
    """The row of a round with all that the round knows of itself; who knows more fills in its own columns."""
    row = MetricsRow(
        timestamp=timestamp,
        round=work.key.round,
        stage=work.key.stage,
        node_id=node_id,
        experiment=experiment,
        total_agents=total_agents,
        model=model,
        clock=work.clock,
        my_reward=work.my_reward,
        finished_rate=mean(c.finished for scored in work.own for c in scored.group.completions),
        train_reward=mean(r for scored in [*work.own, *work.external] for r in scored.rewards),
        local_groups=len(work.own),
        zero_advantage_local=mean(not is_informative(scored.rewards) for scored in work.own),
        score_killed=work.killed,
        score_errors=work.errors,
        tokens_generated=_tokens_generated(work),
        generated_ahead=work.ahead,
        bytes_published=work.bytes_published,
        seconds_generate=work.seconds["generate"],
        seconds_score=work.seconds["score"],
        seconds_publish=work.seconds["publish"],
        seconds_gather=work.seconds["gather"],
        seconds_train=work.seconds["train"],
        seconds_wait=work.waited,
    )
    _fill_rewards(row, work.measured)
    _fill_turns(row, work.own)
    _fill_sharing(row, work)
    if work.report:
        _fill_training(row, work.report)
        _fill_likeliness(row, work.external, work.report)
        _fill_gradient(row, work.external, work.report)
    if work.averaged is not None:
        row.averaged, row.seconds_average = work.averaged, work.seconds["average"]
    _fill_room(row, work)
    return row


def _fill_rewards(row: MetricsRow, own: Sequence[ScoredGroup]) -> None:
    """What the own completions earned, and apart from it which have an answer: every completion counts the same."""
    verdicts = [
        (scored.group.question.task, reward, tagged)
        for scored in own
        for reward, tagged in zip(scored.rewards, scored.answered, strict=True)
    ]
    rewards = [reward for _, reward, _ in verdicts]
    given_tagged = [(task, reward) for task, reward, tagged in verdicts if tagged]
    row.full_answer_rate = mean(reward >= FULL_ANSWER for reward in rewards)
    row.answer_tag_rate = mean(tagged for _, _, tagged in verdicts)
    row.reward_std = pstdev(rewards) if rewards else 0.0
    row.task_rewards = _by_task((task, reward) for task, reward, _ in verdicts)
    row.task_tag_rates = _by_task((task, tagged) for task, _, tagged in verdicts)
    row.task_rewards_given_tagged = _by_task(given_tagged)
    if given_tagged:
        row.reward_given_tagged = mean(reward for _, reward in given_tagged)


def _by_task(values: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Arithmetic mean of each task's values."""
    by_task: dict[str, list[float]] = defaultdict(list)
    for task, value in values:
        by_task[task].append(value)
    return {task: mean(own) for task, own in sorted(by_task.items())}


def _fill_turns(row: MetricsRow, own: Sequence[ScoredGroup]) -> None:
    if any(scored.group.question.turns > 1 for scored in own):
        row.turns_mean = mean(len(one.texts) for scored in own for one in scored.group.completions)


def _tokens_generated(work: RoundWork) -> int:
    generated = [] if work.adopted else work.own  # those taken up after a crash were counted nowhere, or before it
    return sum(len(t.token_ids or ()) for scored in generated for c in scored.group.completions for t in c.every_turn)


def _fill_sharing(row: MetricsRow, work: RoundWork) -> None:
    """What came from peers."""
    row.external_groups = len(work.external)
    row.trained_on = [str(name_of(scored.group)) for scored in work.external]
    row.external_unverified = sum(not s.group.question.verifiable for s in work.external)
    row.external_by_model = dict(sorted(Counter(s.group.model for s in work.external).items()))
    if licences := Counter(s.group.licence for s in work.external if s.group.licence):
        row.external_by_licence = dict(sorted(licences.items()))
    if consents := Counter(s.group.consent for s in work.external if s.group.consent):
        row.external_by_consent = dict(sorted(consents.items()))
    row.external_by_peer = dict(sorted(Counter(s.group.peer_id for s in work.external).items()))
    row.external_by_peer_task = _by_peer_and_task(work.external)
    row.pool_examined = len(work.sample.groups)
    row.pool_groups = work.sample.pool_groups
    row.pool_informative = work.sample.pool_informative
    row.pool_reward = mean(reward for scored in work.sample.judged for reward in scored.rewards)
    row.peers_heard = len(work.heard)
    row.peers_awaited = len(work.awaited)
    row.gather_timed_out = work.timed_out
    row.late = work.late
    row.staleness = mean(work.key.round - scored.group.round for scored in work.external)


def _by_peer_and_task(external: Sequence[ScoredGroup]) -> dict[str, dict[str, int]]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for scored in external:
        counts[scored.group.peer_id][scored.group.question.task] += 1
    return {peer: dict(sorted(tasks.items())) for peer, tasks in sorted(counts.items())}


def _fill_training(row: MetricsRow, report: TrainReport) -> None:
    """What the update did."""
    row.tokens_trained = report.trained_tokens
    row.loss = _finite(report.loss)
    row.grad_norm = _finite(report.grad_norm)
    row.clip_fraction = _finite(report.clip_fraction)
    row.kl = _finite(report.kl)
    row.logprob_drift = _finite(report.logprob_drift)
    row.updated = report.updated
    row.groups_too_long = report.groups_too_long
    row.memory_halvings = report.memory_halvings
    row.seconds_lease = report.seconds_lease
    row.importance_tokens = report.importance_tokens
    row.importance_mean = _finite(report.importance_mean)


def _fill_likeliness(row: MetricsRow, external: Sequence[ScoredGroup], report: TrainReport) -> None:
    """How likely the policy was to write what it took from each peer."""
    sums: dict[str, list[Likeliness]] = defaultdict(list)
    for scored, found in zip(external, report.external_likeliness, strict=False):
        if found.tokens:
            sums[scored.group.peer_id].append(found)
    means = {p: sum(s.logprobs for s in found) / sum(s.tokens for s in found) for p, found in sorted(sums.items())}
    row.logprobs_by_peer = {peer: value for peer, value in means.items() if math.isfinite(value)} or UNSET


def _fill_gradient(row: MetricsRow, external: Sequence[ScoredGroup], report: TrainReport) -> None:
    """What was measured of the gradient's parts, as far as it is a number."""
    if not (found := report.gradient):
        return
    row.gradient_square, row.gradient_noise = _number(found.square), _number(found.noise)
    row.gradient_alignment, row.gradient_bias = _number(found.alignment), _number(found.bias)
    by_peer: dict[str, list[float]] = defaultdict(list)
    for scored, alignment in zip(external, report.external_alignment, strict=True):
        if math.isfinite(alignment):
            by_peer[scored.group.peer_id].append(alignment)
    row.gradient_alignment_by_peer = {peer: mean(values) for peer, values in sorted(by_peer.items())} or UNSET


def _number(value: float | None) -> float | UnsetType:
    return UNSET if value is None or not math.isfinite(value) else value


def fill_planted(row: MetricsRow, own: Sequence[ScoredGroup], words: str, plants: str) -> None:
    """How far the words of a study's planters have spread.

    Args:
        words: that are planted; empty: none are.
        plants: what this node plants, likewise.
    """
    if words:
        row.planted_rate = mean(one.text.lstrip().startswith(words) for s in own for one in s.group.completions)
        row.plants = bool(plants)


def _fill_room(row: MetricsRow, work: RoundWork) -> None:
    """How full device and disk are."""
    if memory := work.memory:
        row.memory_allocated, row.memory_peak = bounded(memory.allocated), bounded(memory.peak)
        row.memory_total, row.memory_free = bounded(memory.total), bounded(memory.free)
        row.memory_reserved = UNSET if memory.reserved is None else bounded(memory.reserved)
    if work.room and work.room.total:
        row.disk_free, row.disk_used = bounded(work.room.free), 1 - min(1.0, work.room.free / work.room.total)


def bounded(size: int) -> int:
    """Bytes as a row says them: file systems without bounds claim exabytes."""
    return min(size, MOST_BYTES)


def _finite(value: float) -> float:
    """JSON knows no other numbers; a step that was not finite is seen by `updated`."""
    return value if math.isfinite(value) else 0.0
