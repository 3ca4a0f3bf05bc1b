"""The page's own files, as they lie in the package: HTML, style, ES modules, and uPlot, which draws the charts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
"""By a file's ending; nothing else is served."""
PAGE = "index.html"


@cache
def served() -> Mapping[str, bytes]:
    """Name -> contents of what a browser may ask for."""
    found = (file for file in files("swarm").joinpath("assets", "web").iterdir() if file.is_file())
    return {file.name: file.read_bytes() for file in found if file.name.rpartition(".")[2] in TYPES}


def type_of(name: str) -> str:
    """Returns the media type of one of them."""
    return TYPES[name.rpartition(".")[2]]
