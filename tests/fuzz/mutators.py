"""A hostile file out of a good one: bytes broken, and JSON whose structure is not what it should be.

All of it follows from the generator that is handed in.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

ESC = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\u2028"
"""A new title, a wiped screen, a colour, text turned round: what a terminal would obey."""
SCALARS: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 17, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**400, 0.5, 17.0, -0.0, 1e308, 5e-324),
    *(float("nan"), float("inf"), "", "0", "anna", "../../etc/passwd", ESC, "\0", "\ud800", "é" * 100, "x" * 5000),
    *([], {}, [[]], {"a": {}}, [0] * 100, {"": None}, {"__proto__": 1}),
)
KEYS = (
    "0",
    "1",
    "00",
    "-1",
    "١",
    "1e1",
    "999999",
    "9999999",
    "",
    "peer_id",
    "schema_version",
    ESC,
    "\ud800",
    "a" * 300,
)
_TEXTS = tuple(
    token.encode()
    for token in (
        *("{", "}", "[", "]", ",", ":", '"', "\\", "null", "true", "NaN", "-Infinity", "1e999", "-", ".", "0x10", "\n"),
        *('"\\ud800"', '"\\u0000"', "/**/", " " * 100, "[" * 50, '{"a":' * 50, "9" * 400, "1." + "1" * 400),
    )
)
TOKENS = (*_TEXTS, b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80", b"\0")


def mutate(data: bytes, others: list[bytes], rng: Random) -> bytes:
    """One to four changes; half of them to the structure, where there is any."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        changed = _structure(data, rng) if rng.random() < 0.6 else None
        data = _bytes(data, others, rng) if changed is None else changed
    return data


# ── structure ───────────────────────────────────────────────────────────────────────────────────────────────────────
Place = tuple[Any, Any]
"""A container, and the key or index of a value in it."""


def _structure(data: bytes, rng: Random) -> bytes | None:
    """The document with one value, key or element changed; None if it is no JSON."""
    try:
        document = [json.loads(data)]
    except (ValueError, RecursionError):
        return None
    places = list(_places(document))
    container, key = rng.choice(places)
    try:
        rng.choice(STRUCTURE)(container, key, places, rng)
        text = json.dumps(document[0], ensure_ascii=rng.random() < 0.5)
        return text.encode("utf-8", "surrogatepass") + b"\n"
    except (ValueError, RecursionError, OverflowError):  # numbers and depths that Python itself refuses
        return None


def _places(value: Any) -> list[Place]:
    """Every value's place, without recursion: documents may be deep."""
    found: list[Place] = []
    todo = [value]
    while todo and len(found) < 2000:
        container = todo.pop()
        keys = list(container) if isinstance(container, dict) else range(len(container))
        for key in keys:
            found.append((container, key))
            if isinstance(container[key], dict | list):
                todo.append(container[key])
    return found


def _replace(container: Any, key: Any, _: list[Place], rng: Random) -> None:
    container[key] = rng.choice(SCALARS)


def _swap(container: Any, key: Any, places: list[Place], rng: Random) -> None:
    other, at = rng.choice(places)
    container[key] = json.loads(json.dumps(other[at]))  # a copy: a structure must not hold itself


def _remove(container: Any, key: Any, _: list[Place], __: Random) -> None:
    if isinstance(container, dict):
        del container[key]
    elif len(container) > 1:
        container.pop(key)


def _add(container: Any, _: Any, places: list[Place], rng: Random) -> None:
    if isinstance(container, dict):
        container[rng.choice(KEYS)] = rng.choice(SCALARS)
    else:
        container.append(rng.choice(SCALARS))


def _rename(container: Any, key: Any, _: list[Place], rng: Random) -> None:
    if isinstance(container, dict):
        container[rng.choice(KEYS)] = container.pop(key)


def _multiply(container: Any, key: Any, _: list[Place], rng: Random) -> None:
    count = rng.choice((2, 3, 10, 100))
    if isinstance(container[key], list):
        container[key] = container[key][:20] * count
    elif isinstance(container, dict):
        container.update({str(i): container[key] for i in range(count)})


def _nudge(container: Any, key: Any, _: list[Place], rng: Random) -> None:
    value = container[key]
    if isinstance(value, int | float) and not isinstance(value, bool):
        container[key] = rng.choice((value + 1, -value, value * 1000, value / 2, float(value), str(value)))
    elif isinstance(value, str):
        at = rng.randrange(len(value) + 1)
        container[key] = value[:at] + rng.choice((ESC, " ", "\n", "0", "É", "\ud800")) + value[at:]
    else:
        container[key] = [value]


def _wrap(container: Any, key: Any, _: list[Place], rng: Random) -> None:
    for _depth in range(rng.choice((1, 10, 300))):
        container[key] = [container[key]] if rng.random() < 0.5 else {"0": container[key]}


STRUCTURE: tuple[Callable[[Any, Any, list[Place], Random], None], ...] = (
    *(_replace, _replace, _swap, _remove, _add, _rename, _multiply, _nudge, _wrap),
)


# ── bytes ───────────────────────────────────────────────────────────────────────────────────────────────────────────
def _bytes(data: bytes, others: list[bytes], rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    end = min(len(data), at + rng.choice((1, 2, 8, 64)))
    match rng.randrange(7):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + data[end:]
        case 2:
            return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        case 3:
            return data[:at] + rng.choice(TOKENS) + data[at:]
        case 4:
            return data[:end] + data[at:end] * rng.choice((1, 2, 50)) + data[end:]
        case 5:
            other = rng.choice(others)
            return data[:at] + other[rng.randrange(len(other) + 1) :]
        case _:
            return data[:at] + rng.choice(TOKENS) + data[end:]
