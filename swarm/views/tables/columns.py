"""The columns of each frame and their dtypes, read off the structs that are written, so that no new one is forgotten.

A whole number or flag that a row may lack has pandas' nullable dtype (`Int64`, `boolean`), a real number NaN. Text is
never missing. What is a dict or a list in the folder stays one, in a column of dtype `object`.
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UnsetType

from swarm.wire.judge_messages import JudgedRow
from swarm.wire.messages import MetricsRow, RewardFile

Columns = dict[str, str]
"""Column -> dtype, in order."""

_ALWAYS = {float: "float64", int: "int64", bool: "bool", str: "str"}
_AT_TIMES = {float: "float64", int: "Int64", bool: "boolean"}
_MISSING = {UnsetType, NoneType}


def columns_of(struct: type[msgspec.Struct]) -> Columns:
    """Returns the fields of a struct as columns, in its order."""
    return {name: _dtype(hint) for name, hint in get_type_hints(struct).items()}


def _dtype(hint: Any) -> str:
    kinds = set(get_args(hint)) if get_origin(hint) in (Union, UnionType) else {hint}
    dtypes = _AT_TIMES if kinds & _MISSING else _ALWAYS
    return dtypes.get((kinds - _MISSING).pop(), "object")


def _picked(columns: Columns, *names: str) -> Columns:
    return {name: columns[name] for name in names}


class ComputedColumn(NamedTuple):
    """A column that is no field of a struct."""

    dtype: str
    unit: str
    meaning: str


RUN_COLUMNS = {
    "configuration": ComputedColumn("str", "", "Name of the run's configuration, such as `4/4`."),
    "seed": ComputedColumn("int64", "", "Seed of the run: the unit of every statistic."),
    "experiment": ComputedColumn("str", "", "Name of the run's experiment."),
}
"""In front of each row of a study's frames: which run it belongs to."""
EVENT_COLUMNS = {
    "timestamp": ComputedColumn("float64", "Unix seconds", "By the node's own clock."),
    "node_id": ComputedColumn("str", "", "The node: the name of its folder for logs."),
    "event": ComputedColumn("str", "", "Name, such as `round.completed`."),
    "level": ComputedColumn(
        "str", "", "`debug`, `info`, `warning`, `error` or `critical`; the folder has `info` and above."
    ),
    "round": ComputedColumn("Int64", "rounds", "Which the event speaks of; missing where it speaks of none."),
    "fields": ComputedColumn("object", "", "All else that the event says: name -> value."),
}
ROLLOUT_COLUMNS = {
    "round": ComputedColumn("int64", "rounds", "Counted from 0."),
    "stage": ComputedColumn("int64", "stages", "Counted from 0."),
    "peer_id": ComputedColumn("str", "", "The node that published it."),
    "slot": ComputedColumn("int64", "groups", "Place of the group among the node's groups of that stage."),
    "completion": ComputedColumn("int64", "completions", "Place in the group."),
    "task": ComputedColumn("str", "", "Name of the task; empty where the file does not say."),
    "prompt": ComputedColumn("str", "", "The question's text, without any model's prompt format."),
    "response": ComputedColumn("str", "", "The decoded completion."),
    "claimed_reward": ComputedColumn(
        "float64", "reward", "What the publisher says; no node trains on it; missing where it says nothing."
    ),
    "finished": ComputedColumn("bool", "", "The model ended it itself; false: cut at the length limit."),
    "answer": ComputedColumn("str", "", "The ground truth by the publisher; empty where there is none."),
    "earlier_turns": ComputedColumn(
        "object", "", "What was said before, as `response` and `reply`; empty where nothing was."
    ),
    "model": ComputedColumn("str", "", "Name of the policy that wrote it."),
    "timestamp": ComputedColumn("float64", "Unix seconds", "When the file was published."),
}
ROLLOUT_FILE_COLUMNS = {
    "round": ComputedColumn("int64", "rounds", "Counted from 0; a round whose files were cleaned away has no row."),
    "stage": ComputedColumn("int64", "stages", "Counted from 0."),
    "peer_id": ComputedColumn("str", "", "The node that published them."),
    "files": ComputedColumn("int64", "files", "That lie in rollouts/; with the frequency `generation` one per group."),
    "bytes": ComputedColumn("int64", "bytes", "Of these files."),
}

METRICS = {name: dtype for name, dtype in columns_of(MetricsRow).items() if name != "totals"}
RUN: Columns = {name: column.dtype for name, column in RUN_COLUMNS.items()}
EVENTS: Columns = {name: column.dtype for name, column in EVENT_COLUMNS.items()}
ROLLOUTS: Columns = {name: column.dtype for name, column in ROLLOUT_COLUMNS.items()}
ROLLOUT_FILES: Columns = {name: column.dtype for name, column in ROLLOUT_FILE_COLUMNS.items()}
REWARDS = _picked(columns_of(RewardFile), "round", "stage", "peer_id", "reward", "submitted_at")

JUDGE = _picked(
    columns_of(JudgedRow),
    *("round", "node_id", "task", "profile", "question_id", "reward", "full_answer", "answered", "timestamp"),
)
