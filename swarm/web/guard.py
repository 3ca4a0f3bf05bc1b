"""Decides who may ask, from a request's head alone, before anything is read. Pure but for its secrets.

    Host        a name of this machine's loopback, or one that was allowed: else a page elsewhere could point its own
                name at this machine (DNS rebinding) and read the answers
    Origin      this service's own, where there is one; Sec-Fetch-Site likewise
    method      GET and HEAD
    token       GET /?token=... once: it becomes a cookie that no script sees and no other site sends
    cookie      on everything else

The token is spent by its first use, and a new one is made for the next browser.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
MOST_SESSIONS = 32
"""Browsers that are let in; the one that came first leaves."""
LONGEST_HEAD = 4096
"""Characters of one header or query that are looked at."""
OPEN = frozenset({"/healthz"})
"""Paths that tell nothing, and need no cookie."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""Headers of every answer."""


class RequestVerdict(Enum):
    """Says what becomes of a request."""

    PASS = auto()
    """The browser is one that was let in."""
    OPEN = auto()
    """The path tells nothing: served to anybody, who stays a stranger."""
    ADMIT = auto()
    """The token was right: a cookie is to be set."""
    REFUSE = auto()


class Judged(NamedTuple):
    """A verdict."""

    verdict: RequestVerdict
    status: int = 200
    """Status of a refusal."""
    text: str = ""
    """Why, for people; or the session of the cookie."""


class RequestHead(NamedTuple):
    """The head of a request."""

    method: str
    path: str
    host: str
    """Header, empty where there is none; so are the others."""
    origin: str = ""
    fetch_site: str = ""
    cookie: str = ""
    token: str = ""
    """Token of the query."""


class Guard:
    """Decides for one service who may ask."""

    def __init__(
        self,
        cookie: str,
        hosts: frozenset[str] = LOOPBACK,
        new_secret: Callable[[], str] = lambda: secrets.token_urlsafe(24),
    ) -> None:
        """Make one with its first token.

        Args:
            hosts: names by which the service may be asked for, without ports.
        """
        self.cookie = cookie
        self.token = new_secret()
        """The one that lets the next browser in."""
        self._hosts = hosts
        self._new_secret = new_secret
        self._sessions: list[str] = []

    def judge(self, asked: RequestHead) -> Judged:
        """Returns what becomes of a request."""
        return self._misdirected(asked) or self._of_another_site(asked) or self._let_in(asked)

    def _misdirected(self, asked: RequestHead) -> Judged | None:
        if host_name(asked.host) not in self._hosts:
            return _refused(421, "this service answers to its own name alone: open the link that swarm web has printed")
        if asked.method not in ("GET", "HEAD"):
            return _refused(405, "this service is read-only: GET and HEAD alone")
        return None

    def _of_another_site(self, asked: RequestHead) -> Judged | None:
        foreign = asked.origin and asked.origin.lower() != f"http://{asked.host.lower()}"
        entering = asked.path == "/"  # a link in a terminal, a notebook or a chat leads there
        if foreign or (asked.fetch_site not in ("", "same-origin", "none") and not entering):
            return _refused(403, "another site may not ask this service")
        return None

    def _let_in(self, asked: RequestHead) -> Judged:
        if asked.path in OPEN:
            return Judged(RequestVerdict.OPEN)
        if asked.path == "/" and asked.method == "GET" and asked.token and _equal(asked.token, self.token):
            return Judged(RequestVerdict.ADMIT, text=self._admit())
        if self._knows(asked.cookie):
            return Judged(RequestVerdict.PASS)
        spent = "this link was used already, or is of an earlier start; " if asked.token else ""
        return _refused(401, f"{spent}open the link that swarm web has printed last: each lets one browser in")

    def _admit(self) -> str:
        self.token = self._new_secret()
        self._sessions.append(self._new_secret())
        del self._sessions[:-MOST_SESSIONS]
        return self._sessions[-1]

    def _knows(self, header: str) -> bool:
        said = cookies_of(header, self.cookie)[:MOST_SESSIONS]
        return any(_equal(session, known) for session in said for known in self._sessions)


def _refused(status: int, text: str) -> Judged:
    return Judged(RequestVerdict.REFUSE, status, text)


def _equal(one: str, other: str) -> bool:
    """Compares two texts in a time that does not tell how much of one is right."""
    return hmac.compare_digest(one.encode(), other.encode())


def host_name(header: str) -> str:
    """Returns the name in a Host header, without its port, in lower case; empty where that is none."""
    name, colon, port = header.lower().rpartition(":")
    if not colon or port.endswith("]"):
        return header.lower()
    return name if port.isascii() and port.isdigit() else ""


def cookies_of(header: str, name: str) -> list[str]:
    """Returns the values of a cookie: any other service of this machine may have set one of this name, whatever its
    port."""
    pairs = (pair.strip().partition("=") for pair in header.split(";"))
    return [value for key, _, value in pairs if key == name]
