"""One request over the network, by the official client. Alone in importing openai; knows neither retries nor G.

    body ─▶ POST ─▶ status, headers, bytes | Failure

The client would read a reply of any size into memory before anybody can look at it, follow redirects, and repeat
failures by rules of its own. So it repeats and follows nothing, and a hook takes each response out of its hands as soon
as the headers are there: no more bytes are read than a reply may have, of errors too.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

import anyio
import openai

from swarm.endpoint.config import EndpointConfig, Form
from swarm.endpoint.key import Key
from swarm.endpoint.outcomes import Failure
from swarm.harmless import printable

_QUIET = ("openai", "httpx", "httpx2", "httpcore", "httpcore2")
"""Loggers that say a line for each request, and below that whole requests."""
_BYTES_PER_CHARACTER = 12
"""JSON writes a character outside of Unicode's first plane as two escapes."""
_OVERHEAD = 2**20
_NEVER_SENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol"})
_NAMED = ("model", "messages", "prompt")
"""What the client's methods ask for by name; the rest goes by them unread."""
_UNUSED = "unused"
"""In the key's place: the client looks for one of its own accord, in a variable that may be meant for others."""


class EndpointAnswer(NamedTuple):
    """A response as it came."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


class _Taken(openai.OpenAIError):  # type: ignore[misc, unused-ignore] # where the extra is not installed
    """Carries a response out of the client."""

    def __init__(self, outcome: EndpointAnswer | Failure) -> None:
        super().__init__("taken")
        self.outcome = outcome


class EndpointClient:
    """Connections of one event loop, open within `async with`."""

    def __init__(self, config: EndpointConfig, key: Key | None) -> None:
        self._config = config
        self._key = key
        self._most_bytes = _OVERHEAD + _BYTES_PER_CHARACTER * config.characters

    async def __aenter__(self) -> Self:
        for name in _QUIET:
            logging.getLogger(name).setLevel(logging.WARNING)
        http = openai.DefaultAsyncHttpxClient(
            follow_redirects=False,
            trust_env=not self._config.local,  # what is on this machine is asked for without a proxy
            event_hooks={"response": [self._take]},
            timeout=None,
        )
        self._client = openai.AsyncOpenAI(
            api_key=_UNUSED,
            base_url=self._config.base_url,
            http_client=http,
            max_retries=0,
            timeout=None,
        )
        self._client.organization = self._client.project = None  # variables that are meant for OpenAI alone
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self._client.close()

    async def ask(self, form: Form, body: dict[str, Any], seconds: float) -> EndpointAnswer | Failure:
        """Returns the response to one request, whatever its status, or why there is none."""
        try:
            with anyio.fail_after(seconds):
                await self._create(form, body)
        except TimeoutError:
            return Failure("late", f"no reply within {seconds:.3g} s", billed=True)
        except Exception as error:  # noqa: BLE001 - a server is a stranger: whatever it makes a library say ends nothing
            return self._outcome(error)
        raise AssertionError("every response is taken")

    async def _create(self, form: Form, body: dict[str, Any]) -> None:
        rest: dict[str, Any] = {name: value for name, value in body.items() if name not in _NAMED}
        named: dict[str, Any] = {name: value for name, value in body.items() if name in _NAMED}
        of = self._client.completions if form == "completions" else self._client.chat.completions
        await of.create(**named, extra_body=rest, extra_headers=self._headers())

    def _headers(self) -> dict[str, Any]:
        authorization = f"Bearer {self._key.reveal()}" if self._key else openai.Omit()
        return {"Authorization": authorization, "Accept-Encoding": "identity"}

    def _outcome(self, error: Exception) -> EndpointAnswer | Failure:
        cause = error.__cause__ or error.__context__
        taken = next((each for each in (error, cause) if isinstance(each, _Taken)), None)
        if taken:
            return taken.outcome
        cause = cause or error
        words = self._hidden(printable(f"{type(cause).__name__}: {cause}")[:300])
        return Failure("down", words, billed=type(cause).__name__ not in _NEVER_SENT)

    async def _take(self, response: Any) -> None:
        """Read a response, no more of it than is allowed, and end the client's part in it."""
        headers = {name.lower(): self._hidden(value) for name, value in response.headers.items()}
        success = 200 <= response.status_code < 300
        body = bytearray()
        if headers.get("content-encoding", "identity") != "identity":
            raise _Taken(Failure("unreadable", "a compressed reply, which was not asked for", billed=success))
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > self._most_bytes:
                if success:
                    raise _Taken(Failure("unreadable", f"a reply of more than {self._most_bytes} bytes", billed=True))
                break
        raise _Taken(
            EndpointAnswer(response.status_code, headers, self._hidden(body.decode("latin-1")).encode("latin-1"))
        )

    def _hidden(self, text: str) -> str:
        return self._key.hidden_in(text) if self._key else text
