"""Says what came of one request: a reply, or a failure of a kind that says what to do next. Pure.

throttled    too much at once: all wait, and try again
down         the server is not there, or broken: try again, count it against the endpoint
late         no reply within a request's time: likewise
unreadable   a reply of another form, or cut off: likewise
declined     this request can never succeed (400, too long): its group is given up
refused      no request can (401, model not found, a redirect): the endpoint is left alone for a while
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Literal, NamedTuple

from swarm.harmless import printable

Kind = Literal["throttled", "down", "late", "unreadable", "declined", "refused"]

_DOWN = frozenset({408, 409, 425})
_REFUSED = frozenset({401, 402, 403, 404, 405, 501})
_FALLS_BACK = frozenset({400, 404, 405, 422, 501})
_NO_MONEY = ("insufficient_quota", "billing_hard_limit_reached")
_MOST_SHOWN = 300


class UsableReply(NamedTuple):
    """One usable reply."""

    text: str
    finished: bool
    """It says that the model ended it, by an end-of-text token or a stop string."""
    tokens_in: int | None
    """Tokens as the server counts; None: it does not say."""
    tokens_out: int | None
    written: str
    """All that the model wrote, to estimate from: with what was left out."""
    trimmed: bool = False
    """It began with the prompt."""


class Failure(NamedTuple):
    """Says why there is no reply."""

    kind: Kind
    detail: str
    """What a stranger's words of it have are printable and cut."""
    billed: bool = False
    """Whether it may cost something nevertheless."""
    asked: float | None = None
    """Seconds to wait, as the server asks."""
    status: int | None = None
    """Status of HTTP, where there was one."""

    @property
    def of_another_form(self) -> bool:
        """Tells whether the endpoint may take the question in another form."""
        about_template = self.status == 500 and ("template" in self.detail.lower() or "role" in self.detail.lower())
        return self.kind == "unreadable" or self.status in _FALLS_BACK or about_template


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
        return "refused" if any(word.encode() in body for word in _NO_MONEY) else "throttled"
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
    try:
        said = _message(json.loads(text))
    except (ValueError, RecursionError):
        said = None
    return printable(" ".join((said or text).split()))[:_MOST_SHOWN]


def _message(value: Any) -> str | None:
    for name in ("error", "message", "detail"):
        if isinstance(value, dict) and name in value:
            value = value[name]
    return value if isinstance(value, str) else None
