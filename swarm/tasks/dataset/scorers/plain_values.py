"""Values that go between judge and candidate: Python's plain ones, as msgpack, told apart by a tag.

What is like one of them is sent as one: a Counter as a dict, a range or a generator as a list. All else cannot be sent.
"""

from __future__ import annotations

import collections
import itertools
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

DEPTH_LIMIT = 50
ITEMS_LIMIT = 100_000
"""Items of an iterator."""
_SMALL = 2**62
_ITERATORS: tuple[type, ...] = (
    range,
    map,
    filter,
    zip,
    types.GeneratorType,
    type({}.keys()),
    type({}.values()),
    type({}.items()),
)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class NotPlainError(ValueError):
    """A value cannot be sent, or what was sent is no value."""


def pack(value: Any) -> bytes:
    """Returns one value as a message. Raises NotPlainError."""
    return _encode(_tagged(value, DEPTH_LIMIT))


def unpack(message: bytes) -> Any:
    """Returns the value of a message of anybody's. Raises NotPlainError."""
    try:
        return _untagged(_decode(message), DEPTH_LIMIT)
    except (msgspec.MsgspecError, RecursionError, TypeError, ValueError, OverflowError) as error:
        raise NotPlainError(f"no plain value: {error}") from None


def _tagged(value: Any, depth: int) -> Any:
    if depth < 0:
        raise NotPlainError(f"a value nested deeper than {DEPTH_LIMIT}")
    if value is None or isinstance(value, bool):
        return value
    for kind, tag in _TAGS:
        if isinstance(value, kind):
            return tag(value, depth - 1)
    raise NotPlainError(f"a value of type {type(value).__name__} cannot be sent")


def _all(values: Iterable[Any], depth: int) -> list[Any]:
    return [_tagged(value, depth) for value in itertools.islice(values, ITEMS_LIMIT)]


_TAGS: tuple[tuple[Any, Callable[[Any, int], Any]], ...] = (
    (int, lambda value, _: int(value) if -_SMALL < value < _SMALL else ["int", f"{value:x}"]),
    (float, lambda value, _: float(value)),
    (str, lambda value, _: ["str", value.encode(errors="surrogatepass")]),
    (bytes, lambda value, _: ["bytes", bytes(value)]),
    (complex, lambda value, _: ["complex", [value.real, value.imag]]),
    (tuple, lambda value, depth: ["tuple", _all(value, depth)]),
    (set, lambda value, depth: ["set", _all(value, depth)]),
    (frozenset, lambda value, depth: ["frozenset", _all(value, depth)]),
    (dict, lambda value, depth: ["dict", [[_tagged(k, depth), _tagged(v, depth)] for k, v in value.items()]]),
    ((list, collections.deque, *_ITERATORS), lambda value, depth: ["list", _all(value, depth)]),
)
"""Type -> what is sent for it; the first that fits."""


def _untagged(sent: Any, depth: int) -> Any:
    if depth < 0:
        raise NotPlainError(f"a value nested deeper than {DEPTH_LIMIT}")
    if sent is None or isinstance(sent, bool | int | float):
        return sent
    tag, content = sent
    if tag not in _VALUES:
        raise NotPlainError(f"an unknown kind of value, {tag!r:.80}")
    return _VALUES[tag](content, depth - 1)


def _each(content: Iterable[Any], depth: int) -> list[Any]:
    return [_untagged(one, depth) for one in content]


_VALUES: Mapping[str, Callable[[Any, int], Any]] = {
    "int": lambda content, _: int(content, 16),
    "str": lambda content, _: content.decode(errors="surrogatepass"),
    "bytes": lambda content, _: bytes(content),
    "complex": lambda content, _: complex(*content),
    "tuple": lambda content, depth: tuple(_each(content, depth)),
    "list": _each,
    "set": lambda content, depth: set(_each(content, depth)),
    "frozenset": lambda content, depth: frozenset(_each(content, depth)),
    "dict": lambda content, depth: {_untagged(k, depth): _untagged(v, depth) for k, v in content},
}
