"""The columns of a row that a history is made of."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from swarm.wire.kinds import SCHEMA_VERSION, Count


class HistoryRow(msgspec.Struct):
    """One line of `logs/{node}/metrics.jsonl`, as far as views draw it; the columns mean what docs/metrics.md says."""

    round: Count
    my_reward: float
    stage: Count = 0
    timestamp: float = 0.0
    answer_tag_rate: float = 0.0
    reward_given_tagged: float | UnsetType = UNSET
    full_answer_rate: float = 0.0
    finished_rate: float = 0.0
    reward_std: float = 0.0
    train_reward: float = 0.0
    local_groups: int = 0
    zero_advantage_local: float = 0.0
    external_wanted: int = 0
    external_groups: int = 0
    pool_groups: int = 0
    pool_informative: int = 0
    pool_reward: float = 0.0
    peers_heard: int = 0
    total_agents: int = 0
    staleness: float = 0.0
    bytes_published: int = 0
    bytes_fetched: int = 0
    tokens_generated: int = 0
    tokens_trained: int = 0
    loss: float = 0.0
    grad_norm: float = 0.0
    clip_fraction: float = 0.0
    kl: float = 0.0
    late: bool = False
    updated: bool = True
    seconds_round: float = 0.0
    seconds_generate: float = 0.0
    seconds_score: float = 0.0
    seconds_publish: float = 0.0
    seconds_gather: float = 0.0
    seconds_train: float = 0.0
    seconds_wait: float = 0.0
    executor_busy: float = 0.0
    memory_allocated: int | UnsetType = UNSET
    memory_total: int | UnsetType = UNSET
    memory_free: int | UnsetType = UNSET
    store_writes: int | UnsetType = UNSET
    store_lists: int | UnsetType = UNSET
    store_reads: int | UnsetType = UNSET
    endpoint_requests: int | UnsetType = UNSET
    endpoint_money: float | UnsetType = UNSET
    adaptive_J_continuous: float | UnsetType = UNSET
    adaptive_baseline: float | UnsetType = UNSET
    turns_mean: float | UnsetType = UNSET
    task_rewards: dict[str, float] = {}
    task_tag_rates: dict[str, float] = {}
    external_by_peer: dict[str, int] = {}
    model: str = ""
    role: str | UnsetType = UNSET
    schema_version: int = SCHEMA_VERSION
