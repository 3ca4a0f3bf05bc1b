"""The columns of each frame and their dtypes, read off the structs that are written, so that no new one is forgotten.

A whole number or flag that a row may lack has pandas' nullable dtype (`Int64`, `boolean`), a real number NaN. Text is
never missing. What is a dict or a list in the folder stays one, in a column of dtype `object`.
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UnsetType

from swarm.wire.kinds import Completions, Groups, Reward, Round, Stage, UnixSeconds
from swarm.wire.messages import JudgedRow, MetricsRow, RewardFile

Columns = dict[str, str]
"""Column -> dtype, in order."""

_ALWAYS = {float: "float64", int: "int64", bool: "bool", str: "str"}
_AT_TIMES = {float: "float64", int: "Int64", bool: "boolean"}
_MISSING = {UnsetType, NoneType}


def columns_of(struct: type[msgspec.Struct]) -> Columns:
    """The fields of a struct as columns, in its order."""
    return {name: _dtype(hint) for name, hint in get_type_hints(struct).items()}


def _dtype(hint: Any) -> str:
    kinds = set(get_args(hint)) if get_origin(hint) in (Union, UnionType) else {hint}
    dtypes = _AT_TIMES if kinds & _MISSING else _ALWAYS
    return dtypes.get((kinds - _MISSING).pop(), "object")


def _picked(columns: Columns, *names: str) -> Columns:
    return {name: columns[name] for name in names}


class RunColumns(msgspec.Struct):
    """In front of each row of a study's frames: which run it belongs to."""

    configuration: str
    """Name of the run's configuration, such as `4/4`."""
    seed: int
    """Of the run: the unit of every statistic."""
    experiment: str
    """Name of the run's experiment."""


class EventColumns(msgspec.Struct):
    """One event of a node."""

    timestamp: UnixSeconds
    """By the node's own clock."""
    node_id: str
    """The node: the name of its folder for logs."""
    event: str
    """Name, such as `round.completed`."""
    level: str
    """`debug`, `info`, `warning`, `error` or `critical`; the folder has `info` and above."""
    round: Round | None
    """Which the event speaks of; missing where it speaks of none."""
    fields: dict[str, Any]
    """All else that the event says: name -> value."""


class RolloutColumns(msgspec.Struct):
    """One published completion."""

    round: Round
    """Counted from 0."""
    stage: Stage
    """Counted from 0."""
    peer_id: str
    """The node that published it."""
    slot: Groups
    """Place of the group among the node's groups of that stage."""
    completion: Completions
    """Place in the group."""
    task: str
    """Name of the task; empty where the file does not say."""
    prompt: str
    """The question's text, without any model's prompt format."""
    response: str
    """The decoded completion."""
    claimed_reward: Reward
    """What the publisher says; no node trains on it; missing where it says nothing."""
    finished: bool
    """The model ended it itself; false: cut at the length limit."""
    answer: str
    """The ground truth by the publisher; empty where there is none."""
    model: str
    """Name of the policy that wrote it."""
    timestamp: UnixSeconds
    """When the file was published."""


RUN = columns_of(RunColumns)
METRICS = columns_of(MetricsRow)
EVENTS = columns_of(EventColumns)
ROLLOUTS = columns_of(RolloutColumns)
REWARDS = _picked(columns_of(RewardFile), "round", "stage", "peer_id", "reward", "submitted_at")

JUDGE = _picked(
    columns_of(JudgedRow),
    *("round", "node_id", "task", "profile", "question_id", "reward", "full_answer", "answered", "timestamp"),
)


def with_run(columns: Columns) -> Columns:
    """The columns of the same frame over all runs of a study; `experiment` moves to the front."""
    return RUN | columns
