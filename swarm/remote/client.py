"""One request over HTTP; knows neither repetitions nor what is asked for.

    path, body ─▶ bytes of a success | Failure

A server is a stranger. No more of a reply is read than it may have, of errors too; nothing compressed is taken, no
redirect followed; whatever the library raises is a failure. The key goes into one header, and is hidden in all that
comes back before anything is cut.
"""

from __future__ import annotations

import json
import logging
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, NamedTuple

import anyio
import httpx

from swarm.harmless import printable
from swarm.remote.key import Key
from swarm.remote.outcomes import Failure, failure_of

_QUIET = ("httpx", "httpcore")
"""Loggers that say a line for each request, and below that whole requests."""
_CONNECT = 10.0
"""Seconds."""
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.UnsupportedProtocol)


@asynccontextmanager
async def opened(url: str, key: Key | None, *, by_proxy: bool) -> AsyncIterator[HttpClient]:
    """Opens connections to one server; `by_proxy`: through those that the environment names."""
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    http = httpx.AsyncClient(
        follow_redirects=False,
        trust_env=by_proxy,
        verify=_certificates(),
        timeout=httpx.Timeout(None, connect=_CONNECT),
        limits=httpx.Limits(max_connections=None),
    )
    try:
        yield HttpClient(http, url.rstrip("/"), key)
    finally:
        with anyio.CancelScope(shield=True):
            await http.aclose()


class HttpClient(NamedTuple):
    """Connections to one server in one event loop, while they are open."""

    http: httpx.AsyncClient
    url: str
    key: Key | None

    async def post(self, path: str, body: Mapping[str, Any], *, seconds: float, most_bytes: int) -> bytes | Failure:
        """Returns the reply to one request, or why there is none.

        Args:
            seconds: from the connection to the last byte.
        """
        headers = {"Accept-Encoding": "identity", "Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {self.key.reveal()}"} if self.key else {}
        content = json.dumps(body).encode()
        try:
            with anyio.fail_after(seconds):
                async with self.http.stream("POST", self.url + path, content=content, headers=headers) as response:
                    return await self._read(response, most_bytes)
        except TimeoutError:
            return Failure("late", f"no reply within {seconds:.3g} s", billed=True)
        except Exception as error:  # noqa: BLE001 - a server is a stranger: whatever it makes a library say ends nothing
            words = self.hidden(printable(f"{type(error).__name__}: {error}")[:300])
            return Failure("down", words, billed=not isinstance(error, _NEVER_SENT))

    async def _read(self, response: httpx.Response, most_bytes: int) -> bytes | Failure:
        headers = {name.lower(): self.hidden(value) for name, value in response.headers.items()}
        success, body = response.is_success, bytearray()
        if headers.get("content-encoding", "identity") != "identity":
            return Failure("unreadable", "a compressed reply, which was not asked for", billed=success)
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > most_bytes:
                if success:
                    return Failure("unreadable", f"a reply of more than {most_bytes} bytes", billed=True)
                break
        read = self.hidden(body.decode("latin-1")).encode("latin-1")
        return read if success else failure_of(response.status_code, headers, read, time.time())

    def hidden(self, text: str) -> str:
        return self.key.hidden_in(text) if self.key else text


@cache
def _certificates() -> ssl.SSLContext:
    """Returns whose certificates are believed: those of the library's list, and of this machine."""
    context = httpx.create_ssl_context()
    context.load_default_certs()
    return context
