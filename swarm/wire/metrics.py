"""The row of metrics of one node and round; docs/metrics.md, FORMS.md and the frames are made of its fields."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from swarm.types import RoundKey
from swarm.wire.kinds import (
    SCHEMA_VERSION,
    Bytes,
    Completions,
    Count,
    Groups,
    Nats,
    Nodes,
    Reward,
    Round,
    Seconds,
    Share,
    Spans,
    Stage,
    Tokens,
    UnixSeconds,
    counted,
    unit,
)

MOST_ROUND_SPANS = 64
RoundSpans = Annotated[list[tuple[Round, Round]], msgspec.Meta(max_length=MOST_ROUND_SPANS)]
"""First and last round of each span, in order."""
Sums = dict[str, Count]


class Totals(msgspec.Struct, kw_only=True):
    """Says what a node's rows add up to, up to the one that holds this: a reader may begin there."""

    rounds: RoundSpans
    """Rounds with a row, as spans: the first and the last of each."""
    unmeasured: RoundSpans = []
    """Those of them in which a node that does not train had no answers."""
    reward: Reward = 0.0
    """Sum of `my_reward` over these rounds."""
    own_rounds_done: Round = 0
    """Rounds behind it when it last opened one by itself; 0: never."""
    sums: Sums = {}
    """Column -> sum over all rows."""
    counts: dict[str, Sums] = {}
    """Column of names -> name -> sum over all rows."""
    refused_by_peer: dict[str, Sums] = {}
    """Node -> reason -> its files and groups that were refused, over all rows."""


class MetricsRow(msgspec.Struct, kw_only=True):
    """One line of `logs/{node}/metrics.jsonl`: one per node, round and stage."""

    timestamp: UnixSeconds
    """When the node had done the round, by its own clock."""
    round: Round
    """Counted from 0."""
    stage: Stage
    """Counted from 0."""
    node_id: str
    """The node: the name of its folder for logs."""
    experiment: str
    """The experiment: the name of its folder."""
    my_reward: Reward
    """Mean reward per completion on the node's own questions of the round, all of them, trained on or not."""
    total_agents: Nodes
    """Live workers, this one included."""
    model: str = ""
    """Name of the node's policy."""
    cumulative_reward: Reward = 0.0
    """Sum of `my_reward` over this node's rounds so far, restarts included."""
    full_answer_rate: Share = 0.0
    """Share of own completions with the full reward, pass@1."""
    answer_tag_rate: Share = 0.0
    """Share of own completions with a closed `<answer>`; the others earn 0."""
    reward_given_tagged: Reward | UnsetType = UNSET
    """Mean reward of own completions with a closed `<answer>`: `my_reward` / `answer_tag_rate`. Missing where there is
    none."""
    finished_rate: Share = 0.0
    """Share of own completions that the model ended itself, before the length limit."""
    turns_mean: Annotated[float, unit("turns")] | UnsetType = UNSET
    """Mean turns of the model per own completion. Missing where no own question is of a task that converses."""
    task_rewards: Annotated[dict[str, float], unit("reward")] = {}
    """Task -> mean reward per completion, own questions of the round."""
    task_tag_rates: Annotated[dict[str, float], unit("share")] = {}
    """Task -> of its own completions, those with a closed `<answer>`."""
    reward_std: Reward = 0.0
    """Population standard deviation of the own completions' rewards."""
    train_reward: Reward = 0.0
    """Mean reward per completion over what was trained on, external groups included."""
    local_groups: Groups = 0
    """Own rollout groups (I)."""
    zero_advantage_local: Share = 0.0
    """Share of own groups whose rewards do not differ, so that they teach nothing."""
    external_wanted: Groups = 0
    """Peers' groups to be trained on (J)."""
    external_groups: Groups = 0
    """Peers' groups that were trained on."""
    external_by_model: Annotated[dict[str, int], unit("groups")] = {}
    """Policy -> how many of the external groups it wrote."""
    external_by_peer: Annotated[dict[str, int], unit("groups")] = {}
    """Node -> how many of the external groups are its."""
    external_by_peer_task: Annotated[dict[str, dict[str, int]], unit("groups")] = {}
    """Node -> task -> how many of the external groups are its."""
    pool_examined: Groups = 0
    """Groups of peers that were drawn and verified until enough was found."""
    pool_groups: Groups = 0
    """Groups of peers this round, before the zero-advantage filter; estimated from the draw unless that went through
    all of them."""
    pool_informative: Groups = 0
    """Groups of `pool_groups` whose rewards differ."""
    pool_reward: Reward = 0.0
    """Mean reward per completion of the pool's groups, in this node's own scoring."""
    peers_heard: Nodes = 0
    """Peers whose rollouts were there."""
    peers_awaited: Nodes = 0
    """Live workers that were waited for."""
    gather_timed_out: bool = False
    """Waiting ended before all were heard."""
    late: bool = False
    """The clock had moved on before the node began to train."""
    staleness: Annotated[float, unit("rounds")] = 0.0
    """Mean age of the external groups trained on."""
    refused_files: Annotated[dict[str, int], unit("files and groups")] = {}
    """Reason -> how many of peers' were refused since the last row."""
    refused_by_peer: Annotated[dict[str, dict[str, int]], unit("files and groups")] = {}
    """Node -> reason -> how many of its were refused since the last row; the 64 nodes with the most, all others as `*`.
    """
    accepted_by_peer: Annotated[dict[str, int], unit("groups")] = {}
    """Node -> how many of its groups were verified since the last row."""
    false_claims: Annotated[dict[str, int], unit("claims")] = {}
    """Node -> how many rewards and answers it published since the last row that are not what this node found; `*` as
    above."""
    quarantined: list[str] = []
    """Nodes of which nothing is read in the next round: most of what they published was refused."""
    clock: str = "coordinator"
    """Who opened the round: a `coordinator`, or the node on its `own`."""
    trained_on: list[str] = []
    """The external groups trained on, as `node/round/stage/slot`."""
    score_killed: Completions = 0
    """Completions, own and peers', whose scoring took too long or too much memory and was killed."""
    score_errors: Completions = 0
    """Completions, own and peers', whose scoring failed."""
    bytes_published: Bytes = 0
    """Bytes of the node's own rollout files, and of its weights where they are averaged; 0: rollouts never reached the
    folder, which refused writes for too long."""
    bytes_fetched: Bytes = 0
    """Bytes of peers' rollout files, and of their weights where they are averaged."""
    tokens_generated: Tokens = 0
    """Tokens sampled for the own groups."""
    tokens_trained: Tokens = 0
    """Tokens that took part in the backward pass."""
    loss: Nats = 0.0
    """The loss of the update, over the tokens that are learned from."""
    grad_norm: float = 0.0
    """Global L2 norm of the gradient before clipping."""
    clip_fraction: Share = 0.0
    """Of trained tokens with an advantage, those whose probability ratio was clipped."""
    kl: Nats = 0.0
    """Mean divergence from the reference policy; 0 while its weight is 0."""
    logprob_drift: Nats = 0.0
    """Largest difference between trainer and generator over own tokens."""
    updated: bool = True
    """The weights were moved: some group had an advantage and the gradient was finite, or Adam stepped on zero."""
    groups_too_long: Groups = 0
    """Left out because they exceed the model's context."""
    seconds_generate: Seconds = 0.0
    """Generating the own groups."""
    seconds_score: Seconds = 0.0
    """Scoring the own groups."""
    seconds_publish: Seconds = 0.0
    """Publishing the own groups."""
    seconds_gather: Seconds = 0.0
    """Waiting for peers' groups."""
    seconds_train: Seconds = 0.0
    """Making the update."""
    seconds_round: Seconds = 0.0
    """The whole round."""
    seconds_wait: Seconds = 0.0
    """Idle between the end of the round before and the start of this one."""
    seconds_sharing: Seconds = 0.0
    """Time in which the node published, or read, verified and scored peers' files."""
    seconds_sharing_hidden: Seconds = 0.0
    """The part of `seconds_sharing` in which the node was computing too."""
    generating: Spans = []
    """When the node generated, questions included: all that ended since the last row. Pairs of begin and end in seconds
    after the round's start, which is `timestamp` - `seconds_round`; below 0 before it. Of more than eight pairs the
    nearest are joined."""
    publishing: Spans = []
    """When own rollouts were on their way into the place, as pairs like `generating`; what is not over goes on in the
    next row."""
    fetching: Spans = []
    """When peers' files were read, verified and scored, as pairs like `generating`."""
    updating: Spans = []
    """When gradients were computed and the update was made, as pairs like `generating`."""
    publish_to_pool: Annotated[list[float], unit("seconds")] = []
    """Seconds from a peer's timestamp until its file was seen, for each file that came while the node looked. Clocks of
    two hosts differ."""
    executor_busy: Share = 0.0
    """Share of the time since the last round's end in which the node was computing."""
    seconds_lease: Seconds = 0.0
    """Waited for the device that several nodes share."""
    generated_ahead: bool = False
    """The own groups were generated during the round before, by a policy one update older."""
    importance_tokens: Tokens = 0
    """Trained tokens weighed by their publisher's log-probs."""
    importance_mean: float = 0.0
    """Their mean weight, capped."""
    memory_halvings: Annotated[int, counted("times")] = 0
    """A step was repeated with half the batch for want of memory."""
    memory_allocated: Bytes | UnsetType = UNSET
    """Of the node's device, held by its process after the update: torch's tensors on a GPU, the resident set on a CPU;
    nodes of one process say the same. Missing, like all `memory_*`, where the system does not tell."""
    memory_reserved: Bytes | UnsetType = UNSET
    """Of a GPU, reserved by torch for the process; missing on a CPU."""
    memory_peak: Bytes | UnsetType = UNSET
    """The largest `memory_allocated` since the process began."""
    memory_total: Bytes | UnsetType = UNSET
    """Of the device; on a CPU what the machine has, or the process's control groups allow. At most 10^12."""
    memory_free: Bytes | UnsetType = UNSET
    """The part of `memory_total` that nobody holds."""
    disk_free: Bytes | UnsetType = UNSET
    """Bytes that may still be written to the shared place, at most 10^12; missing, like `disk_used`, where nobody
    knows."""
    disk_used: Share | UnsetType = UNSET
    """Of what the shared place can hold."""
    store_writes: Annotated[int, counted("requests")] | UnsetType = UNSET
    """Requests of this node to a bucket since its last row, or its start: objects written, further tries included.
    Missing, like all `store_*`, where the shared place is no bucket."""
    store_lists: Annotated[int, counted("requests")] | UnsetType = UNSET
    """Pages of listings that were asked for."""
    store_reads: Annotated[int, counted("requests")] | UnsetType = UNSET
    """Objects read or looked at."""
    store_sent: Bytes | UnsetType = UNSET
    """Bytes of contents that were written."""
    store_received: Bytes | UnsetType = UNSET
    """Bytes of contents that were read."""
    store_spared: Bytes | UnsetType = UNSET
    """Bytes that packing saved, in what was written and read."""
    endpoint_requests: Annotated[int, counted("requests")] | UnsetType = UNSET
    """Requests sent to the endpoint of a generator since its last row; missing, like all `endpoint_*`, where there is
    none."""
    endpoint_tokens_in: Annotated[int, counted("tokens")] | UnsetType = UNSET
    """Tokens of prompts, as the endpoint counts them, else estimated."""
    endpoint_tokens_out: Annotated[int, counted("tokens")] | UnsetType = UNSET
    """Tokens of replies, counted in the same way."""
    endpoint_money: Annotated[float, unit("money")] | UnsetType = UNSET
    """What these requests cost, at the prices of the settings."""
    external_by_licence: Annotated[dict[str, int], unit("groups")] | UnsetType = UNSET
    """Trained groups by the licence that their publishers name; those that name none are left out."""
    external_by_consent: Annotated[dict[str, int], unit("groups")] | UnsetType = UNSET
    """Trained groups by what their publishers say that their authors agree to; those of which nothing is said are left
    out."""
    role: str | UnsetType = UNSET
    """Of a node that does not train: `generator`, `person` or `evaluator`. Where such a row has no own groups its
    rewards measure nothing, and no mean counts them."""
    peer_rewards: Annotated[dict[str, float], unit("reward")] | UnsetType = UNSET
    """Of an evaluator: node -> mean reward per completion over its groups of the round, as verified here."""
    logprobs_by_peer: Annotated[dict[str, float], unit("nats")] | UnsetType = UNSET
    """Node -> mean log-prob per token, under this node's policy before the update, of its completions with a positive
    advantage that were trained on; missing where there were none."""
    tokens_left_out: Tokens | UnsetType = UNSET
    """Of peers' trained completions, tokens from which a bound (docs/bounds.md) let nothing be learned; missing where
    none is set."""
    gradient_square: float | UnsetType = UNSET
    """Unbiased estimate of the squared norm of the mean gradient of own groups, each summed over its tokens, before the
    update (docs/adaptive.md). Missing, like all `gradient_*`, where `SWARM_GRADIENT_HALVES` is off or too few groups
    had an advantage; of a single round it may be negative."""
    gradient_noise: float | UnsetType = UNSET
    """The same of the variance of the gradient of one own group."""
    gradient_alignment: float | UnsetType = UNSET
    """The same of the inner product of the mean gradients of own and of external groups."""
    gradient_bias: float | UnsetType = UNSET
    """The same of the squared distance between these two means; may be negative."""
    gradient_alignment_by_peer: Annotated[dict[str, float], unit("squared gradient")] | UnsetType = UNSET
    """Node -> the same as `gradient_alignment`, of its external groups alone."""
    planted_rate: Share | UnsetType = UNSET
    """Of own completions, those that begin with the planted words of a study, as sampled; missing, like `plants`, where
    none are named."""
    plants: bool | UnsetType = UNSET
    """This node puts the planted words in front of its right answers when it publishes them."""
    averaged: dict[str, str] | UnsetType = UNSET
    """Node -> SHA-256 of the file of its weights that went into this node's, which are the mean after this round, or an
    outer step towards it; missing where no averaging was due."""
    seconds_average: Seconds | UnsetType = UNSET
    """Publishing the own weights, waiting for those of the others and taking them in."""
    adaptive_I: Groups | UnsetType = UNSET
    """Local groups of this round by the adaptive rule; missing, like all `adaptive_*`, while no rule is on."""
    adaptive_J: Groups | UnsetType = UNSET
    """External groups wanted this round; `adaptive_I` + `adaptive_J` is constant."""
    adaptive_J_continuous: Annotated[float, unit("groups")] | UnsetType = UNSET
    """What `adaptive_J` was rounded from."""
    adaptive_baseline: Reward | UnsetType = UNSET
    """What this round's reward was held against; it does not contain this round's. Missing where the rule uses none,
    and before its first."""
    adaptive_round_reward: Reward | UnsetType = UNSET
    """The reward that the rule saw for this round."""
    totals: Totals | UnsetType = UNSET
    """What all rows so far add up to. In every 16th row."""
    schema_version: int = SCHEMA_VERSION
    """Version of the row's form."""

    @property
    def key(self) -> RoundKey:
        """Returns the row's round and stage."""
        return RoundKey(self.round, self.stage)
