"""One request over HTTP, whoever is asked; knows neither repetitions nor what is asked for.

    method, path, body ─▶ bytes of a success | Failure

A server is a stranger. No more of a reply is read than it may have, of errors too; nothing compressed is taken, no
redirect followed; whatever the library raises is a failure. The key goes into one header, and is hidden in all that
comes back before anything is cut.
"""

from __future__ import annotations

import json
import logging
import ssl
import time
from collections.abc import Mapping
from functools import cache
from types import TracebackType
from typing import Any, Self

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


class HttpClient:
    """Connections to one server in one event loop, open within `async with`."""

    def __init__(self, url: str, key: Key | None = None, *, by_proxy: bool = False) -> None:
        """`by_proxy`: through those that the environment names."""
        self._url, self._key, self._by_proxy = url.rstrip("/"), key, by_proxy

    async def __aenter__(self) -> Self:
        for name in _QUIET:
            logging.getLogger(name).setLevel(logging.WARNING)
        self._http = httpx.AsyncClient(
            follow_redirects=False,
            trust_env=self._by_proxy,
            verify=_certificates(),
            timeout=httpx.Timeout(None, connect=_CONNECT),
            limits=httpx.Limits(max_connections=None),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self._http.aclose()

    async def ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, seconds: float, most_bytes: int
    ) -> bytes | Failure:
        """Returns the reply to one request, or why there is none.

        Args:
            seconds: from the connection to the last byte.
        """
        content = None if body is None else json.dumps(body).encode()
        headers = {"Accept-Encoding": "identity"}
        headers |= {"Content-Type": "application/json"} if body is not None else {}
        headers |= {"Authorization": f"Bearer {self._key.reveal()}"} if self._key else {}
        try:
            with anyio.fail_after(seconds):
                async with self._http.stream(method, self._url + path, content=content, headers=headers) as response:
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
        return self._key.hidden_in(text) if self._key else text


@cache
def _certificates() -> ssl.SSLContext:
    """Returns whose certificates are believed: those of the library's list, and of this machine."""
    context = httpx.create_ssl_context()
    context.load_default_certs()
    return context
