"""JSON of strangers, and `json`: the answer is JSON of the same value as the column's.

It has no NaN, no infinity, valid Unicode and bounded nesting. Numbers are equal by value (1 and 1.0), and true is no 1.
Names of an object may come in any order; of one that stands twice the last counts.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from swarm.tasks.dataset.scorers import ScorerFunctions, ScorerRow

DEPTH_LIMIT = 32
"""Lists and objects in each other."""


def loads(text: str) -> Any:
    """Returns the value. Raises ValueError saying what is wrong."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    _bound(value, DEPTH_LIMIT)
    return value


def _bound(value: Any, depth: int) -> None:
    if depth < 0:
        raise ValueError(f"nested deeper than {DEPTH_LIMIT}")
    if isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            _bound(item, depth - 1)


def equal(one: Any, other: Any) -> bool:
    """Tells whether two JSON values are the same."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _score(row: ScorerRow, answer: str) -> float:
    try:
        value = loads(answer)
    except ValueError:
        return 0.0
    return float(equal(value, _wanted(row)))


def _own(row: ScorerRow) -> str:
    """Returns the column's value as a completion would write it."""
    return row.truth if isinstance(row.truth, str) else json.dumps(row.truth, ensure_ascii=False)


def _wanted(row: ScorerRow) -> Any:
    """Text is JSON; what a file of JSON lines has nested is its value. Raises ValueError where it is neither."""
    return loads(row.truth) if isinstance(row.truth, str) else row.truth


JSON = ScorerFunctions(_score, _wanted, _own)
