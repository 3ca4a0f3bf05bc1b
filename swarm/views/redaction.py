"""What a report that leaves the machine must not name: who its user is, where files lie, and secrets.

    text ─▶ secrets by value and by form ─▶ addresses ─▶ paths ─▶ names of user and machine ─▶ text

Names of nodes, experiments, models and tasks stay: without them a report says nothing.
"""

from __future__ import annotations

import getpass
import os
import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

SECRET_NAMES = r"token|secret|password|passwd|credential|api[_-]?key|access[_-]?key|private[_-]?key"
SECRET = "<secret>"
SHORTEST_SECRET = 6
"""Characters of a variable's value that is looked for; shorter ones stand in every text."""
SHORTEST_NAME = 3
_FORMS = (  # each word is looked at from its beginning alone: from every place of a long one, it takes minutes
    (re.compile(r"-----BEGIN [^-]+-----.*?(-----END [^-]+-----|\Z)", re.DOTALL), SECRET),
    (re.compile(r"\b(hf|sk|pk|gh[pousr]|github_pat|glpat|xox[abp])[-_][A-Za-z0-9_-]{8,}"), SECRET),
    (re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{43}=(?![A-Za-z0-9=])"), "<key>"),
    (re.compile(r"\bA(KI|SI)A[A-Z0-9]{12,}"), SECRET),
    (re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)?"), SECRET),
    (re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9+/._=-]{8,}", re.IGNORECASE), rf"\1 {SECRET}"),
    (
        re.compile(rf"(?<![\w-])([\w-]*({SECRET_NAMES}))([\"']?\s*[=:]\s*)([\"']?)[^\s\"',;]+", re.IGNORECASE),
        rf"\1\3\4{SECRET}",
    ),
    (re.compile(r"(?<!\w)(\w+://)[^\s/@]+@"), r"\1<user>@"),
    (re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(\.[\w-]+)+"), "<email>"),
    (re.compile(r"(?<![\w.])\d{1,3}(\.\d{1,3}){3}(?![\w.])"), "<address>"),
)
_LIBRARY = re.compile(r"(?<![\w.~>])/[^\s'\"<>|:]{0,400}?/(?:site|dist)-packages(?=/)")
_PATH = re.compile(r"(?<![\w.~>/])(/(?!/)[^\s'\"<>|:,;()`]+)|\b[A-Za-z]:\\[^\s'\"<>|,;()`]+")
_PATH_QUOTED = re.compile(r"([\"'])(?:/|[A-Za-z]:\\)(?:(?!\1)[^\n])+\1")


@dataclass(frozen=True)
class Redaction:
    """What this machine's texts are freed of."""

    names: tuple[tuple[str, str], ...]
    """User, machine -> what stands for them."""
    folders: tuple[tuple[str, str], ...]
    """Known folders -> what stands for them; the longest first."""
    secrets: tuple[str, ...]
    """Values of variables whose names say that they are secret."""

    def redacted(self, text: str) -> str:
        """The text without any of it."""
        for secret in self.secrets:
            text = text.replace(secret, SECRET)
        for form, instead in _FORMS:
            text = form.sub(instead, text)
        for folder, instead in self.folders:
            text = re.sub(rf"{re.escape(folder)}(?![\w.-])", instead, text)
        text = _LIBRARY.sub("<packages>", text)
        text = _PATH.sub("<path>", _PATH_QUOTED.sub(r"\1<path>\1", text))
        for name, instead in self.names:
            text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", instead, text, flags=re.IGNORECASE)
        return text


def redaction_here(environ: Mapping[str, str], shared: Path | str, named: Iterable[str] = ()) -> Redaction:
    """Of this user on this machine.

    Args:
        shared: the shared place.
        named: other paths that are known, such as those of models, whose spaces end no path in a text.
    """
    home, package = os.path.expanduser("~"), str(Path(__file__).parents[1])
    host = platform.node()
    names = [(_user(), "<user>"), (Path(home).name, "<user>"), (host, "<host>"), (host.partition(".")[0], "<host>")]
    others = {path: "<path>" for path in named if os.path.isabs(path)}
    folders = others | {str(shared): "<shared>", os.path.realpath(shared): "<shared>", package: "<swarm>", home: "~"}
    return Redaction(
        names=tuple((name, instead) for name, instead in names if len(name) >= SHORTEST_NAME),
        folders=tuple(sorted(((f, i) for f, i in folders.items() if len(f) > 1), key=lambda pair: -len(pair[0]))),
        secrets=tuple(value for name, value in environ.items() if _is_secret(name, value)),
    )


def _is_secret(name: str, value: str) -> bool:
    return len(value) >= SHORTEST_SECRET and bool(re.search(rf"{SECRET_NAMES}|_key$", name, re.IGNORECASE))


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
