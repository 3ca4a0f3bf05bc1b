"""JSON of strangers: no NaN, no infinity, valid Unicode, bounded nesting."""

from __future__ import annotations

from typing import Any

import msgspec

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
