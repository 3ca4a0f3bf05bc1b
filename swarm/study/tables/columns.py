"""The columns of each frame and their dtypes, read off the structs that are written, so that no new one is forgotten.

A whole number or flag that a row may lack has pandas' nullable dtype (`Int64`, `boolean`), a real number NaN. Text is
never missing. What is a dict or a list in the folder stays one, in a column of dtype `object`.
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UnsetType

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


RUN: Columns = {"configuration": "str", "seed": "int64", "experiment": "str"}
"""In front of each row of a study's frames: which run it belongs to."""

METRICS = columns_of(MetricsRow)

EVENTS: Columns = {
    "timestamp": "float64",
    "node_id": "str",
    "event": "str",
    "level": "str",
    "round": "Int64",
    "fields": "object",
}

ROLLOUTS: Columns = {
    "round": "int64",
    "stage": "int64",
    "peer_id": "str",
    "slot": "int64",
    "completion": "int64",
    "task": "str",
    "prompt": "str",
    "response": "str",
    "claimed_reward": "float64",
    "finished": "bool",
    "answer": "str",
    "model": "str",
    "timestamp": "float64",
}

REWARDS = _picked(columns_of(RewardFile), "round", "stage", "peer_id", "reward", "submitted_at")

JUDGE = _picked(
    columns_of(JudgedRow),
    *("round", "node_id", "task", "profile", "question_id", "reward", "full_answer", "answered", "timestamp"),
)


def with_run(columns: Columns) -> Columns:
    """The columns of the same frame over all runs of a study; `experiment` moves to the front."""
    return RUN | columns
