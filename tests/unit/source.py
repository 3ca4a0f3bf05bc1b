"""The source of the package, parsed once for all tests that look through it."""

from __future__ import annotations

import ast
import gc
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def trees() -> Mapping[str, ast.Module]:
    """Returns path -> tree of each module of `swarm` and `services`."""
    files = [file for part in ("swarm", "services") for file in (ROOT / part).rglob("*.py")]
    gc.disable()  # which would look through all trees again and again
    try:
        return {file.relative_to(ROOT).as_posix(): ast.parse(file.read_text("utf-8")) for file in files}
    finally:
        gc.enable()
