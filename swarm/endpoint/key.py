"""The key of an endpoint: where it is read from, and what keeps it out of everything that is written or shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from swarm.endpoint.config import EndpointConfig, is_loopback
from swarm.errors import ConfigError

HIDDEN = "[key]"
_SHORTEST_HIDDEN = 8
"""Shorter ones, such as `none` or `EMPTY` for servers that look at none, are words that a text may have."""
_MOST_BYTES = 8192


class Key:
    """A key that no repr, message or copy of the configuration shows."""

    __slots__ = ("_spelt", "_value")

    def __init__(self, value: str) -> None:
        self._value = value
        self._spelt = re.compile("".join(map(_in_json, value)))

    def __repr__(self) -> str:
        return "Key(hidden)"

    def __reduce__(self) -> str:
        raise TypeError("a key is not pickled")

    def reveal(self) -> str:
        """Returns the key itself, for the header of a request and nothing else."""
        return self._value

    def hidden_in(self, text: str) -> str:
        """Returns the text without the key, also as JSON may spell it: a server may repeat it, in an error or in a
        reply."""
        return self._spelt.sub(HIDDEN, text) if len(self._value) >= _SHORTEST_HIDDEN else text


def _in_json(character: str) -> str:
    """Returns a pattern of how a character of a key may stand in JSON: of one that is hidden after a cut, a part would
    stay."""
    return rf"(?:\\?{re.escape(character)}|\\u(?i:{ord(character):04x}))"


def read_key(config: EndpointConfig, environ: Mapping[str, str]) -> Key | None:
    """Returns the key, or None where there is none to send.

    Raises:
        ConfigError: the file cannot be read, what is there can be no key, or it would go unencrypted over a network.
    """
    value = _from_file(config.key_file) if config.key_file else environ.get(config.key_variable or " ", "").strip()
    if not value:
        return None
    return checked_key(
        value,
        config.base_url,
        holder=f"endpoint: what {_place(config)} holds",
        key=f"endpoint: the key of {_place(config)}",
        ways="a tunnel to 127.0.0.1, no key (key_variable empty), or plain_http_key if the network is yours",
        plain_http=config.plain_http_key,
    )


def checked_key(value: str, url: str, *, holder: str, key: str, ways: str, plain_http: bool = False) -> Key:
    """Returns the key for a server, if it can be one and nobody on the way reads it.

    Args:
        holder: where it comes from, as a message begins.
        key: what it is called, likewise.
        ways: what can be done where it would go unencrypted, beside https.
        plain_http: it may.

    Raises:
        ConfigError: it can be no key, or would go unencrypted over a network.
    """
    if not (value.isascii() and value.isprintable() and " " not in value):
        raise ConfigError(f"{holder} is no key: it has spaces or characters that no header takes")
    parts = urlsplit(url)
    if not (parts.scheme == "https" or is_loopback(parts.hostname or "") or plain_http):
        raise ConfigError(f"{key} would go unencrypted to {url}: use https://, {ways}")
    return Key(value)


def _place(config: EndpointConfig) -> str:
    return f"the file {config.key_file}" if config.key_file else f"the variable {config.key_variable}"


def _from_file(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"endpoint: the key file {path} cannot be read: {error.strerror}") from None
    if len(content) > _MOST_BYTES or not content.strip():
        raise ConfigError(f"endpoint: the key file {path} must hold a key and nothing else, got {len(content)} bytes")
    return content.decode("latin-1").strip()
