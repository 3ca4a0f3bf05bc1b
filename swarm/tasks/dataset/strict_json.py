"""JSON without what its readers take on top: no NaN, no infinity, no name twice, valid Unicode, bounded nesting."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

DEPTH_LIMIT = 32
"""Lists and objects in each other."""


def loads(text: str) -> Any:
    """Returns the value. Raises ValueError saying what is wrong."""
    try:
        value = _decoder.decode(text)
    except RecursionError:
        raise _too_deep() from None
    check(value)
    return value


def check(value: Any, depth: int = DEPTH_LIMIT) -> None:
    """See that a value is one of JSON. Raises ValueError."""
    if depth < 0:
        raise _too_deep()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no number of JSON")
    if isinstance(value, str):
        value.encode()  # a lone surrogate: UnicodeEncodeError is a ValueError
    elif isinstance(value, list):
        for item in value:
            check(item, depth - 1)
    elif isinstance(value, dict):
        for name, item in value.items():
            check(name, depth - 1)
            check(item, depth - 1)


def equal(one: Any, other: Any) -> bool:
    """Tells whether two JSON values are the same."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _too_deep() -> ValueError:
    return ValueError(f"nested deeper than {DEPTH_LIMIT}")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise ValueError(f"the name {twice!r:.80} twice in one object")
    return found


def _constant(text: str) -> None:
    raise ValueError(f"{text} is no number of JSON")


_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)
