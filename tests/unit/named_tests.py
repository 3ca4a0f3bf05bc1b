"""The tests that a table of the documents names, and whether they are there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
_NAMED = re.compile(
    r"""`(?:tests/)?((?:\w+/)*(?:test_\w+|\w+_laws)\.py)(?:::(\w+))?`  # a file, and perhaps one test of it
      | `(?:python\ -m\ )?(tests|benchmarks)[./]([\w./]+)   # a folder, or a campaign
      | `make\ (test-[\w]+)`""",
    re.VERBOSE,
)


@cache
def _files() -> dict[str, Path]:
    return {f"/{path.relative_to(TESTS).as_posix()}": path for path in TESTS.rglob("*.py")}


def named_in(text: str) -> list[str]:
    """What a row names: `file.py`, `file.py::test`, a folder below `tests/`, or a campaign and how it is started."""
    return [found.group(0).strip("`") for found in _NAMED.finditer(text)]


def is_there(named: str) -> bool:
    """Whether what a cell names is there, and is one thing."""
    found = _NAMED.match(f"`{named}`")
    assert found, named
    file, test, top, below, target = found.groups()
    if file:
        there = [path for name, path in _files().items() if name.endswith(f"/{file}")]
        return len(there) == 1 and (not test or f"def {test}(" in there[0].read_text("utf-8"))
    if target:
        return f"\n{target}:" in (TESTS.parent / "Makefile").read_text("utf-8")
    path = TESTS.parent / top / below.rstrip("./").replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()
