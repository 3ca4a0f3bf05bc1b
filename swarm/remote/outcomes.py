"""Says what came of one request: a reply, or a failure of a kind that says what follows. Pure; a server is a stranger.

kind         when                                                what follows
throttled    429; 503 with Retry-After                           all wait, then it is repeated; no failure of the server
down         no connection, 5xx, 408, 409, 425                   repeated after a pause
late         no reply within a request's time                    likewise
unreadable   another form, cut off, too large, not to be had     likewise
declined     any other 4xx: this request can never succeed       given up
refused      401 to 405, 501, no money, a redirect: none can     all are given up; at the start a ConfigError
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, Literal, NamedTuple

from swarm.harmless import printable
from swarm.types import Completion

Kind = Literal["throttled", "down", "late", "unreadable", "declined", "refused"]
FINAL: frozenset[Kind] = frozenset({"declined", "refused"})

_DOWN = frozenset({408, 409, 425})
_REFUSED = frozenset({401, 402, 403, 404, 405, 501})
_NO_MONEY = (b"insufficient_quota", b"billing_hard_limit_reached")
_MOST_SHOWN = 300


class Tokens(NamedTuple):
    """Counts the tokens of one request, as spent or at worst."""

    prompt: int
    reply: int


class Reply(NamedTuple):
    completion: Completion
    spent: Tokens = Tokens(0, 0)
    estimated: int = 0
    """How many of the tokens spent nobody counted."""


class Failure(NamedTuple):
    kind: Kind
    detail: str
    """What a stranger's words of it have are printable and cut."""
    billed: bool = False
    """Whether it may cost something nevertheless."""
    asked: float | None = None
    """Seconds to wait, as the server asks."""
    status: int | None = None
    """Status of HTTP, where there was one."""


def failure_of(status: int, headers: Mapping[str, str], body: bytes, wall: float) -> Failure:
    """Returns a status that is no success, as a failure.

    Args:
        headers: names in lower case.
        wall: seconds since the epoch, for a `Retry-After` that names a date.
    """
    asked = retry_after(headers, wall)
    words = _words(body)
    detail = f"HTTP {status}" + (f": {words}" if words else "")
    if 300 <= status < 400:
        where = printable(headers.get("location", "nowhere"))[:_MOST_SHOWN]
        return Failure("refused", f"HTTP {status}: redirects to {where}; none is followed", status=status)
    return Failure(_kind(status, body, asked), detail, asked=asked, status=status)


def _kind(status: int, body: bytes, asked: float | None) -> Kind:
    if status == 429:
        return "refused" if any(word in body for word in _NO_MONEY) else "throttled"
    if status == 503 and asked is not None:
        return "throttled"
    if status in _REFUSED:
        return "refused"
    return "down" if status >= 500 or status in _DOWN else "declined"


def retry_after(headers: Mapping[str, str], wall: float) -> float | None:
    """Returns seconds that a server asks to wait, in any of three ways; None: none, or nothing that means a time."""
    try:
        if "retry-after-ms" in headers:
            seconds = float(headers["retry-after-ms"]) / 1000
        else:
            seconds = _seconds(headers.get("retry-after", "nothing"), wall)
    except (ValueError, OverflowError):
        return None
    return max(0.0, seconds) if seconds == seconds else None


def _seconds(value: str, wall: float) -> float:
    try:
        return float(value)
    except ValueError:
        return parsedate_to_datetime(value).timestamp() - wall


def _words(body: bytes) -> str:
    """Returns what an error's body says to people, in the forms of OpenAI, FastAPI and Ollama, else its beginning."""
    text = body[: 16 * _MOST_SHOWN].decode("utf-8", "replace")
    said: Any = None
    with suppress(ValueError, RecursionError):
        said = json.loads(text)
    for name in ("error", "message", "detail"):
        said = said.get(name, said) if isinstance(said, dict) else said
    return printable(" ".join((said if isinstance(said, str) and said else text).split()))[:_MOST_SHOWN]
