"""A server's address, and the key for it: both checked before anything starts, and the key kept out of everything."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from swarm.errors import ConfigError
from swarm.harmless import quoted

HIDDEN = "[key]"
_SHORTEST_HIDDEN = 8
"""Shorter ones, such as `none` or `EMPTY` for servers that look at none, are words that a text may have."""


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


def checked_key(value: str, url: str, variable: str, *, plain_http: bool) -> Key | None:
    """Returns the key that a variable holds, if it can be one and nobody on the way reads it; None: there is none.

    Args:
        plain_http: it may go unencrypted over a network.

    Raises:
        ConfigError: it can be no key, or would go unencrypted over a network.
    """
    if not (value := value.strip()):
        return None
    if not (value.isascii() and value.isprintable() and " " not in value):
        raise ConfigError(
            f"endpoint: what the variable {variable} holds is no key: it has spaces or characters that no header takes"
        )
    parts = urlsplit(url)
    if not (parts.scheme == "https" or is_loopback(parts.hostname or "") or plain_http):
        raise ConfigError(
            f"endpoint: the key of the variable {variable} would go unencrypted to {url}: use https://, a tunnel to "
            "127.0.0.1, no key (key_variable empty), or plain_http_key if the network is yours"
        )
    return Key(value)


def check_url(url: str) -> None:
    """Sees that it is the URL of a server. Where a key may be part of it, the message does not repeat it.

    Raises:
        ConfigError: it is none.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ConfigError("endpoint: base_url is no URL; expected one such as http://127.0.0.1:8000/v1") from None
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ConfigError(
            "endpoint: base_url must have no user, password, query or fragment; a key has settings of its own"
        )
    if parts.scheme not in ("http", "https") or not host or not url.isprintable() or " " in url:
        raise ConfigError(f"endpoint: base_url must be a URL such as http://127.0.0.1:8000/v1, got {quoted(url)}")


def is_loopback(host: str) -> bool:
    """Tells whether a host is this machine, by its address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
