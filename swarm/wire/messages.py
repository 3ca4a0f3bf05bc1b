"""The JSON forms of the shared folder as msgspec structs; PROTOCOL.md is the same in words.

Rules of growth: fields are only added, with defaults, and never change meaning; readers ignore fields they do not
know and refuse a `schema_version` they do not know. What is UNSET is not written.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from swarm.types import Origin

SCHEMA_VERSION = 1

Count = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


class StateFile(msgspec.Struct, kw_only=True):
    """`state/current_state.json`: the round clock. The coordinator alone writes it, and always forwards."""

    round: Count
    """The open round; after the last one, the number of rounds done."""
    stage: Count
    created_at: float
    """Unix seconds at the experiment's start."""
    updated_at: float
    updated_by: str
    experiment_name: str
    max_rounds: Count = 0
    """How many rounds there will be; 0: not said."""
    finished: bool = False
    held: bool = False
    """The coordinator has come back and waits for its workers: nobody begins this round yet."""
    round_opened_at: float = 0.0
    round_interval: float = 0.0
    schema_version: int = SCHEMA_VERSION


class PeerFile(msgspec.Struct, kw_only=True):
    """`peers/{node}.json`: registration, and the heartbeat that readers watch for change."""

    peer_id: str
    registered_at: float
    node_role: str
    beat: Count = 0
    """Grows with each heartbeat. Liveness is judged by its change on the reader's own clock, never by timestamps."""
    last_seen: float = 0.0
    status: str = "active"
    """`starting` (loading its model), `active`, or `stopped`."""
    round: int = -1
    """The round it works on, -1 before the first."""
    stage: int = 0
    phase: str = ""
    incarnation: str = ""
    """Random per process, so that two processes under one id notice each other."""
    host: str = ""
    pid: int = 0
    process_started_at: float = 0.0
    model: str = ""
    schema_version: int = SCHEMA_VERSION


class RolloutEntry(msgspec.Struct, kw_only=True):
    """One completion of a group."""

    prompt: str
    response: str
    reward: float | None = None
    """The publisher's own claim. Readers verify for themselves and never train on it."""
    finished: bool = True
    """The model ended it itself; False: cut at the length limit."""
    token_ids: Raw | UnsetType = UNSET
    """The sampled ids: list[int], end-of-text included where finished. Read by the codec alone, which takes lists like
    these or none at all: what else is there is no reason to refuse the text."""
    logprobs: Raw | UnsetType = UNSET
    """Natural-log probabilities of these tokens: list[float], at the sampling temperature, before any truncation."""


class GroupInfo(msgspec.Struct, kw_only=True):
    """What is said once per group."""

    task: str
    answer: str | None = None
    metadata: Raw = Raw(b"{}")
    """The task's own, an object. Readers make theirs anew and leave this one unparsed."""
    origin: Origin | None = None


class PolicyInfo(msgspec.Struct, kw_only=True):
    """Who wrote the completions."""

    model: str = ""
    rounds_trained: Count = 0
    tokenizer: str | UnsetType = UNSET
    """Digest of the tokenizer that the token_ids belong to."""
    temperature: float | UnsetType = UNSET
    """That of the sampling, and so of the logprobs."""


class RolloutFile(msgspec.Struct, kw_only=True):
    """`rollouts/round_R/stage_S/{node}.json`: the node's I groups of that stage, keyed "0" .. "I-1"."""

    peer_id: str
    round: Count
    stage: Count
    timestamp: float
    rollouts: dict[str, list[RolloutEntry]]
    groups: dict[str, GroupInfo] = {}
    policy: PolicyInfo = msgspec.field(default_factory=PolicyInfo)
    schema_version: int = SCHEMA_VERSION


class RewardFile(msgspec.Struct, kw_only=True):
    """`rewards/round_R/stage_S/{node}.json`: the node has done this stage."""

    round: Count
    stage: Count
    reward: float
    """Mean reward per completion on the node's own questions."""
    peer_id: str
    submitted_at: float
    schema_version: int = SCHEMA_VERSION


class WinnersFile(msgspec.Struct, kw_only=True):
    """`winners/round_R/{node}.json`: the peers with the best mean reward of the round, in this node's own scoring."""

    round: Count
    winners: list[str]
    peer_id: str
    submitted_at: float
    schema_version: int = SCHEMA_VERSION


class ExperimentFile(msgspec.Struct, kw_only=True):
    """`experiment.json`: what makes this experiment what it is, written once by the coordinator that creates it."""

    experiment_name: str
    created_at: float
    created_by: str
    identity: dict[str, Any]
    versions: dict[str, str] = {}
    schema_version: int = SCHEMA_VERSION


class NodeState(msgspec.Struct, kw_only=True):
    """`checkpoints/round_R/{node}/node.json`: what a node carries from round to round besides its policy."""

    node_id: str
    rounds_done: int
    """Also the task cursor: questions are drawn by round."""
    seed: int
    cumulative_reward: float
    model: str
    rounds_trained: int = 0
    """Rounds that changed the weights, so that a resumed node goes on publishing the right `policy.rounds_trained`."""
    schema_version: int = SCHEMA_VERSION


class MetricsRow(msgspec.Struct, kw_only=True):
    """One line of `logs/{node}/metrics.jsonl`: one per node and round."""

    timestamp: float
    round: Count
    stage: Count
    node_id: str
    experiment: str
    my_reward: float
    """Mean reward per completion on the node's own questions of the round, all of them (not only trained ones)."""
    total_agents: Count
    """Live workers, this one included."""
    model: str = ""
    cumulative_reward: float = 0.0
    """Sum of my_reward over this node's rounds so far, restarts included."""
    full_answer_rate: float = 0.0
    """Share of own completions with the full reward: free of the floors that some tasks give."""
    answer_tag_rate: float = 0.0
    """Share of own completions with a closed <answer>."""
    finished_rate: float = 0.0
    task_rewards: dict[str, float] = {}
    """Mean reward per completion by task, own questions of the round."""
    reward_std: float = 0.0
    """Population standard deviation of the own completions' rewards."""
    train_reward: float = 0.0
    """Mean reward per completion over what was trained on, external groups included."""
    local_groups: Count = 0
    zero_advantage_local: float = 0.0
    """Share of own groups without any advantage."""
    external_wanted: Count = 0
    external_groups: Count = 0
    external_by_model: dict[str, int] = {}
    external_by_peer: dict[str, int] = {}
    external_by_peer_task: dict[str, dict[str, int]] = {}
    """Peer -> task -> external groups trained on."""
    pool_groups: Count = 0
    """Verified groups of peers this round, before the filter."""
    pool_informative: Count = 0
    """Of these, with some advantage."""
    pool_reward: float = 0.0
    """Mean reward per completion of the pool's groups, in this node's own scoring."""
    peers_heard: Count = 0
    peers_awaited: Count = 0
    gather_timed_out: bool = False
    late: bool = False
    """The clock had moved on before this node began to train."""
    staleness: float = 0.0
    """Mean of (my round - the round of the group) over the external groups trained on."""
    refused_files: dict[str, int] = {}
    """Peers' files and groups refused since the last row, by reason."""
    refused_by_peer: dict[str, dict[str, int]] = {}
    """The same, by peer and reason."""
    accepted_by_peer: dict[str, int] = {}
    """Groups of peers that were verified since the last row."""
    false_claims: dict[str, int] = {}
    """Per peer: completions since the last row whose published reward, or questions whose published answer, is not what
    this node found."""
    quarantined: list[str] = []
    """Peers of which nothing is read for now."""
    clock: str = "coordinator"
    """Who opened the round: a `coordinator`, or the node on its `own`."""
    external_unverified: Count = 0
    """External groups trained on whose question could not be regenerated (SWARM_ADMIT=unverified)."""
    trained_on: list[str] = []
    """The external groups trained on, as `peer/round/stage/slot`."""
    score_killed: Count = 0
    score_errors: Count = 0
    bytes_published: Count = 0
    bytes_fetched: Count = 0
    tokens_generated: Count = 0
    tokens_trained: Count = 0
    loss: float = 0.0
    grad_norm: float = 0.0
    clip_fraction: float = 0.0
    kl: float = 0.0
    logprob_drift: float = 0.0
    updated: bool = True
    groups_too_long: Count = 0
    seconds_generate: float = 0.0
    seconds_score: float = 0.0
    seconds_publish: float = 0.0
    seconds_gather: float = 0.0
    seconds_train: float = 0.0
    seconds_round: float = 0.0
    seconds_wait: float = 0.0
    """Idle between the end of the round before and the start of this one."""
    seconds_sharing: float = 0.0
    """Time during which publishing, or reading, verifying and scoring peers' files was going on."""
    seconds_sharing_hidden: float = 0.0
    """The part of it that ran while the compute executor was busy."""
    publish_to_pool: list[float] = []
    """Per peer file: seconds from its publisher's timestamp to its arrival in the pool (clocks of two hosts differ)."""
    loop_lag_max: float = 0.0
    executor_busy: float = 0.0
    """Share of the time from the end of the round before to the end of this one in which the compute executor worked
    for this node."""
    seconds_lease: float = 0.0
    """Waited for the device's lease."""
    generated_ahead: bool = False
    """The own groups were generated while the round before was still being gathered or trained on, by a policy one
    update older."""
    importance_tokens: Count = 0
    """Trained tokens that were weighed by their publisher's log-probs."""
    importance_mean: float = 0.0
    """Their mean weight, truncated."""
    memory_halvings: Count = 0
    """Times that a step was repeated with half the batch for want of memory."""
    adaptive_I: Count | UnsetType = UNSET
    """Local groups of this round by the adaptive rule; the adaptive columns are there only while it is on."""
    adaptive_J: Count | UnsetType = UNSET
    """External groups wanted this round, adaptive_I + adaptive_J constant."""
    adaptive_J_continuous: float | UnsetType = UNSET
    """What adaptive_J was rounded from."""
    adaptive_baseline: float | UnsetType = UNSET
    """The reward that this round's was held against: it does not contain this round's."""
    adaptive_round_reward: float | UnsetType = UNSET
    """The reward that the rule was given for this round."""
    schema_version: int = SCHEMA_VERSION


class JudgeQuestion(msgspec.Struct, kw_only=True):
    """`judge/questions/round_R/{node}.json`: what a judge asks one node in one round.

    It holds neither the answer nor the origin, from which the answer could be made.
    """

    round: Count
    node: str
    profile: str
    """Difficulty."""
    question_id: str
    """To be repeated in the answer; says nothing about the question."""
    prompt: str
    """The question's text, without any model's prompt format."""
    asked_at: float
    task: str = ""
    """For people."""
    schema_version: int = SCHEMA_VERSION


class JudgeAnswer(msgspec.Struct, kw_only=True):
    """`judge/answers/round_R/{node}.json`: one completion, sampled after the update of that round."""

    peer_id: str
    round: Count
    question_id: str
    response: str
    """The decoded completion, without special tokens."""
    answered_at: float
    finished: bool = True
    """The model ended it itself; False: cut at the length limit."""
    policy: PolicyInfo = msgspec.field(default_factory=PolicyInfo)
    schema_version: int = SCHEMA_VERSION


class JudgedRow(msgspec.Struct, kw_only=True):
    """One line of `logs/judge/judge.jsonl`: one per node and round that was answered."""

    timestamp: float
    round: Count
    node_id: str
    task: str
    profile: str
    question_id: str
    reward: float
    """The verifier's reward, 0 to 1."""
    full_answer: bool
    """The reward is full: pass@1 is the mean of this."""
    answered: bool
    """The response holds a closed <answer>."""
    experiment: str
    model: str = ""
    """As the node calls its policy."""
    rounds_trained: Count = 0
    """Updates that the policy says it has had."""
    finished: bool = True
    schema_version: int = SCHEMA_VERSION


class ExamRow(msgspec.Struct, kw_only=True):
    """One entry of the list in `exam.json`: how well one node does in one task on the frozen held-out questions."""

    node_id: str
    model: str
    rounds_done: Count
    """Rounds behind the checkpoint; 0: the model that the node started from."""
    task: str
    n: Count
    """Questions."""
    pass_at_1: float
    """Share of completions with the full reward."""
    mean_reward: float
    answered: float
    """Share of completions with a closed <answer>."""
    samples: Count = 1
    """Completions per question."""
