"""Removes what a card that leaves the machine must not name: addresses, where files lie, and secrets.

    text ─▶ secrets by value, however spelled, by name and by form ─▶ addresses ─▶ paths ─▶ text

Names of nodes, experiments, models and tasks stay: without them a card says nothing. So do those of user and machine: a
user called `swarm` would be struck out of every command.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, quote_plus

_PASSWORDS = r"password|passwd|passphrase|pwd"
SECRET_NAMES = (
    rf"token|secret|{_PASSWORDS}|credential|(?:api|access|private|account|shared)[_-]?key|signature|(?<![a-z])sig"
    r"|connection[_-]?string|(?<![a-z])(?:auth|pass|sas)|cookie"
)
"""How names of variables, settings, headers and parameters of URLs end whose values are secret."""
SECRET = "<secret>"
SHORTEST_SECRET = 6
"""Characters of a variable's value that is looked for; shorter ones stand in every text."""
_FORMS = (  # each word is looked at from its beginning alone: from every place of a long one, it takes minutes
    (re.compile(r"-----BEGIN [^-]+-----.*?(-----END [^-]+-----|\Z)", re.DOTALL), SECRET),
    (
        re.compile(
            r"\b(hf|sk|pk|rk|gsk|r8|xai|nvapi|npm|pypi|whsec|tskey|dckr_pat|gh[pousr]|github_pat|glpat|xox[abp])"
            r"[-_][A-Za-z0-9_-]{8,}"
        ),
        SECRET,
    ),
    (re.compile(r"\b(AIza[A-Za-z0-9_-]|ya29\.)[A-Za-z0-9_-]{16,}"), SECRET),
    (re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{43,}={1,2}(?![A-Za-z0-9=])"), "<key>"),
    (re.compile(r"\bA(KI|SI)A[A-Z0-9]{12,}"), SECRET),
    (re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)?"), SECRET),
    (re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9+/._=-]{8,}", re.IGNORECASE), rf"\1 {SECRET}"),
    (
        re.compile(
            r"\b((?:authorization|cookie)[\"']?\s*[=:]\s*[\"']?(?:(?:bearer|basic|token|digest)\s+)?)[^\n\"']+",
            re.IGNORECASE,
        ),
        rf"\1{SECRET}",
    ),
    (
        re.compile(rf"(?<![\w-])([\w-]*(?:{SECRET_NAMES})[\"']?\s*[=:]\s*)([\"'])(?:(?!\2)[^\n])+", re.IGNORECASE),
        rf"\1\2{SECRET}",
    ),
    (
        re.compile(rf"(?<![\w-])([\w-]*(?:{_PASSWORDS})[\"']?\s*[=:]\s*)(?!\s)[^\n\"',;&]+", re.IGNORECASE),
        rf"\1{SECRET}",
    ),
    (
        re.compile(rf"(?<![\w-])([\w-]*(?:{SECRET_NAMES})[\"']?\s*[=:]\s*)[^\s\"',;&]+", re.IGNORECASE),
        rf"\1{SECRET}",
    ),
    (re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(\.[\w-]+)+"), "<email>"),
    (re.compile(r"(?<![\w.])\d{1,3}(\.\d{1,3}){3}(?![\w.])"), "<address>"),
    (re.compile(r"(?<![\w:.])(?=[\w:]*::)(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?:%\w+)?(?![\w:.])"), "<address>"),
    (re.compile(r"(?<![\w:.])[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4}){7}(?:%\w+)?(?![\w:.])"), "<address>"),
    (re.compile(r"(?<![\w:.-])[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}(?![\w:.-])"), "<address>"),
    (re.compile(r"\bfile://[^\s\"'<>|]+"), "<path>"),
    (re.compile(r"(?<![\w\\])\\{2,4}[\w.$-]+\\[^\s\"'<>|]*"), "<path>"),
)
_LIBRARY = re.compile(r"(?<![\w.~>])/[^\s'\"<>|:]{0,400}?/(?:site|dist)-packages(?=/)")
_WORD = re.compile(r"[^\s\"'<>]+")
_PATH = re.compile(r"(?:(?<![\w.~>/])|(?<=\s-[A-Za-z]))(/(?!/)[^\s'\"<>|:,;()`]+)|\b[A-Za-z]:\\[^\s'\"<>|,;()`]+")
_PATH_QUOTED = re.compile(r"([\"'])(?:/|[A-Za-z]:\\)(?:(?!\1)[^\n])+\1")


@dataclass(frozen=True)
class Redaction:
    """Removes from texts where files lie on this machine, and secrets."""

    folders: tuple[tuple[str, str], ...]
    """Known folders -> what stands for them; the longest first."""
    secrets: tuple[str, ...]
    """Values of variables whose names say that they are secret."""

    def redacted(self, text: str) -> str:
        """The text without any of it."""
        for secret in sorted({spelled for one in self.secrets for spelled in _spellings(one)}, key=len, reverse=True):
            text = text.replace(secret, SECRET)
        text = _WORD.sub(_without_user, text)
        for form, instead in _FORMS:
            text = form.sub(instead, text)
        for folder, instead in self.folders:
            text = re.sub(rf"{re.escape(folder)}(?![\w.-])", instead, text)
        text = _LIBRARY.sub("<packages>", text)
        return _PATH.sub("<path>", _PATH_QUOTED.sub(r"\1<path>\1", text))


def redaction_here(environ: Mapping[str, str], shared: Path | str) -> Redaction:
    """Makes the redaction for this user on this machine.

    Args:
        shared: the shared place.
    """
    home, package = os.path.expanduser("~"), str(Path(__file__).parents[1])
    folders = {str(shared): "<shared>", os.path.realpath(shared): "<shared>", package: "<swarm>", home: "~"}
    return Redaction(
        folders=tuple(sorted(((f, i) for f, i in folders.items() if len(f) > 1), key=lambda pair: -len(pair[0]))),
        secrets=tuple(secret for name, value in environ.items() for secret in _secrets(name, value)),
    )


def _without_user(word: re.Match[str]) -> str:
    """Returns a URL without user and password, which may hold slashes and @ themselves."""
    scheme, mark, rest = word[0].partition("://")
    return f"{scheme}{mark}<user>@{rest.rpartition('@')[2]}" if "@" in rest else word[0]


def _secrets(name: str, value: str) -> Iterator[str]:
    """Yields the secrets in a variable: all of its value, or the password of a URL in it."""
    if _is_secret(name, value):
        yield value
    for password in re.findall(r"://[^\s/@:]*:([^\s@]+)@", value):
        if len(password) >= SHORTEST_SECRET:
            yield password


def _spellings(secret: str) -> set[str]:
    """Returns the spellings of a secret: as it is, and as JSON, other programs' JSON and URLs write it."""
    in_json = json.dumps(secret)[1:-1]
    return {secret, in_json, in_json.replace("/", "\\/"), quote(secret), quote(secret, safe=""), quote_plus(secret)}


def _is_secret(name: str, value: str) -> bool:
    return len(value) >= SHORTEST_SECRET and bool(re.search(rf"{SECRET_NAMES}|_key$", name, re.IGNORECASE))
