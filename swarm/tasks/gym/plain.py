"""Metadata of a question as JSON has it: what the datasets put there is numpy's, sets, tuples as keys, dates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """Equal for equal values, in every process: nothing is written that names an address."""
    match value:
        case None | bool():
            return value
        case int() | float() | str():
            return _builtin(value)
        case Mapping():
            return {_key(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case set() | frozenset():
            return sorted((plain(item) for item in value), key=repr)
    listed = getattr(value, "tolist", None)  # numpy's
    if listed is not None:
        return plain(listed())
    text = str(value)
    return type(value).__name__ if " at 0x" in text else text


def _builtin(value: float | str) -> float | str:
    """Returns a value without what a subclass adds: numpy.str_ is no text to who writes files. Integers above 64 bits
    are text."""
    if isinstance(value, str):
        return str.__str__(value) if type(value) is not str else value
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**64 else str(int(value))
    return float(value)


def _key(key: Any) -> str:
    return key if type(key) is str else str(plain(key))
