"""EndpointConfig: which endpoint, how it is asked, what that may cost. Opens nothing: settings are checked first."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from swarm.errors import ConfigError
from swarm.harmless import printable, quoted
from swarm.instruction import OURS, Asking
from swarm.remote.generation import Terms
from swarm.remote.key import Key, check_url, checked_key, is_loopback
from swarm.remote.limits import Breaker, Budget, Prices, ServerLimits, Usage

Form = Literal["chat", "chat-user", "completions"]
FORMS: tuple[Form, ...] = ("chat", "chat-user", "completions")
"""In the order in which `auto` tries them."""
CHARACTERS_PER_TOKEN = 64
"""What peers take at most of a completion, for each token that one of their own may have."""
OWN_FIELDS = (
    *("model", "messages", "prompt", "max_tokens", "max_completion_tokens", "n", "best_of", "echo", "stream"),
    *("temperature", "top_p", "stop"),
)
"""Fields of a request that have a setting of their own, or would change the form of the reply."""

Count = Annotated[int, Meta(ge=1)]
Amount = Annotated[float, Meta(ge=0, le=1e12)]
Seconds = Annotated[float, Meta(gt=0, le=1e9)]


@dataclass(frozen=True, kw_only=True)
class EndpointConfig:
    """An OpenAI-compatible endpoint as a generator. Times are seconds. Holds no key, only where it lies.

    What comes from settings is converted by msgspec, which holds the types and their bounds.

    Raises:
        ConfigError: a value is out of its range, or contradicts another.
    """

    base_url: str
    """Up to what `/chat/completions` is put behind, such as `http://127.0.0.1:8000/v1`."""
    model: str
    """The model's name as the endpoint knows it."""
    name: str | None = None
    """What peers see as the policy's name; None: the last part of the model's."""
    api: Literal["auto", "chat", "chat-user", "completions"] = "auto"
    """`chat`: a system and a user turn; `chat-user`: all in the user's, for templates without a system role;
    `completions`: plain text, for base models; `auto`: the first of them that the endpoint takes."""
    temperature: Amount | None = 1.0
    """None: not sent."""
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    """None: not sent."""
    max_tokens: Count = 256
    """Most tokens of a reply."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """How that is called: some providers take the second alone."""
    stop: tuple[str, ...] = ()
    """Strings that end a reply. Most servers leave them out of it, so that `</answer>` would take each answer's end."""
    extra_body: str = "{}"
    """A JSON object of further fields, such as `{"chat_template_kwargs": {"enable_thinking": false}}`."""
    reasoning: Literal["drop", "keep"] = "drop"
    """What a server gives apart as reasoning is left out, or stands in front between `<think>` and `</think>`."""
    key_variable: str = "OPENAI_API_KEY"
    """Name of the environment variable that holds the key; empty: none is sent. Where it is not set, none is."""
    plain_http_key: bool = False
    """Whether the key may be sent without encryption to another machine."""
    concurrency: Count = 8
    """Most requests under way at once."""
    request_timeout: Seconds = 120.0
    """Seconds for one request, from the connection to the last byte."""
    patience: Seconds = 45.0
    """Seconds for one generation: groups that are not complete by then are left out."""
    retries: Annotated[int, Meta(ge=0)] = 4
    """How often one request is repeated after a failure; throttling does not count."""
    backoff: Seconds = 0.5
    """Before the first repetition; twice as long each time."""
    longest_backoff: Seconds = 30.0
    breaker_failures: Count = 20
    """After so many failures without a reply in between the endpoint counts as down."""
    breaker_rest: Seconds = 10.0
    """An endpoint that is down is left alone for so long, then tried with one request; twice as long each time."""
    breaker_longest_rest: Seconds = 300.0
    price_in: Amount = 0.0
    """Money per million tokens of prompts."""
    price_out: Amount = 0.0
    """Money per million tokens of replies."""
    cap_tokens: Count | None = None
    """Most tokens to be used up, of prompts and replies, all lives of the node together."""
    cap_money: Annotated[float, Meta(gt=0, le=1e12)] | None = None
    """Most money to be spent, likewise."""
    asking: Asking = OURS
    """System prompt and instruction; in a run those of the node's settings, whatever stands here."""

    def __post_init__(self) -> None:
        check_url(self.base_url)
        if self.key_variable and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.key_variable):
            raise ConfigError(
                "endpoint: key_variable must be the NAME of an environment variable, such as OPENAI_API_KEY;"
                " what is there is not repeated, since it may be a key"
            )
        if not self.model or len(self.model) > 500 or not self.model.isprintable():
            raise _refused("model", "a model's name", self.model)
        if self.cap_money is not None and not (self.price_in or self.price_out):
            raise ConfigError("endpoint: cap_money needs price_in and price_out, which are 0")
        keeps_stop = self.extra.get("include_stop_str_in_output")
        if any(part and part in "</answer>" for part in self.stop) and not keeps_stop:
            raise _refused(
                "stop", "no part of `</answer>`: servers leave stop strings out of what they give", self.stop
            )
        if "" in self.stop:
            raise _refused("stop", "strings that are not empty", self.stop)

    @property
    def extra(self) -> dict[str, Any]:
        """Returns the further fields. Raises ConfigError if they are none."""
        try:
            fields = json.loads(self.extra_body)
        except ValueError as error:
            raise ConfigError(f"endpoint: extra_body is not JSON: {error}") from None
        if not isinstance(fields, dict):
            raise ConfigError(f"endpoint: extra_body must be a JSON object, got {type(fields).__name__}")
        if taken := [name for name in fields if name in OWN_FIELDS]:
            raise ConfigError(
                f"endpoint: extra_body must not set {', '.join(taken)}: swarm sets it, or counts on another"
            )
        return fields

    @property
    def shown_name(self) -> str:
        """Returns the name that peers see; of a path its last part, which says nothing about this machine."""
        return printable(self.name or re.split(r"[/\\]", self.model.rstrip("/\\"))[-1])[:80]

    @property
    def characters(self) -> int:
        """Longest text of a completion; a reply is cut there."""
        return CHARACTERS_PER_TOKEN * self.max_tokens

    @property
    def local(self) -> bool:
        """Tells whether the endpoint is on this machine, by its address."""
        return is_loopback(urlsplit(self.base_url).hostname or "")

    @property
    def terms(self) -> Terms:
        return Terms(
            concurrency=self.concurrency,
            patience=self.patience,
            repeats=self.retries,
            pause=self.backoff,
            longest_pause=self.longest_backoff,
        )

    @property
    def limits(self) -> ServerLimits:
        """Returns what bounds its requests, of which nothing is used up."""
        return ServerLimits(
            Budget(Usage(), Prices(self.price_in, self.price_out), self.cap_tokens, self.cap_money),
            Breaker(self.breaker_failures, self.breaker_rest, self.breaker_longest_rest),
        )

    def read_key(self, environ: Mapping[str, str]) -> Key | None:
        """Returns the key, or None where there is none to send.

        Raises:
            ConfigError: what is there can be no key, or it would go unencrypted over a network.
        """
        value = environ.get(self.key_variable or " ", "")
        return checked_key(value, self.base_url, self.key_variable, plain_http=self.plain_http_key)


def _refused(name: str, expected: str, value: object) -> ConfigError:
    return ConfigError(f"endpoint: {name} must be {expected}, got {quoted(value)}")
