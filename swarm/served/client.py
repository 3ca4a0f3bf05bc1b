"""One request to a generation server, by the standard library; knows nothing of what is asked.

    method, path, body ─thread─▶ status, headers, bytes | Failure

A thread waits for each reply, for http.client blocks. Who gives up, by the clock or cancelled, shuts the connection
under it: the thread ends, and the server stops writing. No redirect is followed, and no more is read than a reply may
have.
"""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import anyio
from anyio import to_thread

from swarm.endpoint.key import Key
from swarm.endpoint.outcomes import Failure, failure_of
from swarm.harmless import printable

AT_ONCE = 64
"""Requests that one call has under way."""
_CONNECT = 10.0
"""Seconds."""
_CHUNK = 2**16


class ServerAnswer(NamedTuple):
    """A response with a status of success."""

    body: bytes


class ServerClient:
    """Asks one server; holds no connection between two requests."""

    def __init__(self, url: str, key: Key | None = None) -> None:
        parts = urlsplit(url)
        self._encrypted = parts.scheme == "https"
        self._host, self._port, self._path = parts.hostname or "", parts.port, parts.path
        self._key = key

    async def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        seconds: float,
        most_bytes: int,
        limiter: anyio.CapacityLimiter | None = None,
    ) -> ServerAnswer | Failure:
        """Returns the reply to one request, or why there is none.

        Args:
            seconds: from the connection to the last byte.
            limiter: of requests at the same time.
        """
        exchange = _Exchange(self._connection(), most_bytes)
        content = None if body is None else json.dumps(body).encode()
        try:
            with anyio.fail_after(seconds):
                return await to_thread.run_sync(
                    exchange.carry_out, method, self._path + path, content, self._headers(content),
                    abandon_on_cancel=True, limiter=limiter,
                )  # fmt: skip
        except TimeoutError:
            return Failure("late", f"no reply within {seconds:.3g} s")
        finally:
            exchange.give_up()

    def _connection(self) -> HTTPConnection:
        if self._encrypted:
            return HTTPSConnection(self._host, self._port, timeout=_CONNECT, context=ssl.create_default_context())
        return HTTPConnection(self._host, self._port, timeout=_CONNECT)

    def _headers(self, content: bytes | None) -> dict[str, str]:
        headers = {"Accept-Encoding": "identity", "Connection": "close"}
        if content is not None:
            headers["Content-Type"] = "application/json"
        if self._key:
            headers["Authorization"] = f"Bearer {self._key.reveal()}"
        return headers

    def hidden(self, failure: Failure) -> Failure:
        """Returns a failure in whose words the key does not stand, should the server repeat it."""
        return failure._replace(detail=self._key.hidden_in(failure.detail)) if self._key else failure


class _Exchange:
    """A request on a connection of its own."""

    def __init__(self, connection: HTTPConnection, most_bytes: int) -> None:
        self._connection = connection
        self._most_bytes = most_bytes
        self._given_up = False
        self._lock = Lock()
        self._socket: socket.socket | None = None

    def carry_out(
        self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]
    ) -> ServerAnswer | Failure:
        """Blocking; in a thread."""
        try:
            self._connection.connect()
            with self._lock:
                if self._given_up:
                    return Failure("late", "given up")
                self._socket = self._connection.sock  # http.client forgets it before a reply is read
                self._socket.settimeout(None)  # who asked keeps the time, and closes
            self._connection.request(method, path, content, dict(headers))
            return self._read(self._connection.getresponse())
        except (OSError, HTTPException, ValueError) as error:
            return Failure("down", printable(f"{type(error).__name__}: {error}")[:300])
        finally:
            self._connection.close()

    def _read(self, response: HTTPResponse) -> ServerAnswer | Failure:
        body = bytearray()
        while chunk := response.read1(_CHUNK):
            body += chunk
            if len(body) > self._most_bytes:
                return Failure("unreadable", f"a reply of more than {self._most_bytes} bytes", status=response.status)
        if response.length:
            return Failure("down", f"the connection broke {response.length} bytes before the end of a reply")
        if 200 <= response.status < 300:
            return ServerAnswer(bytes(body))
        headers = {name.lower(): value for name, value in response.getheaders()}
        return failure_of(response.status, headers, bytes(body), time.time())

    def give_up(self) -> None:
        """End the exchange from outside, if it is not over."""
        with self._lock:
            self._given_up = True
        if self._socket:
            with suppress(OSError):  # it is over already
                self._socket.shutdown(socket.SHUT_RDWR)
