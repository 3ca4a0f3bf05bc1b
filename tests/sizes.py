"""How big the product is: python -m tests.sizes [--base REV].

Prints for each room its files, lines and statements, and the budget that docs/development.md gives it. With --base it
also prints how much each differs from an earlier commit. The core is what lies in swarm/ outside of swarm/plugins/.
Statements are counted without docstrings. It informs, and refuses nothing.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = "docs/development.md"
Sources = Mapping[str, str]
"""Path -> text of all Python files of one state of the repository."""


class Size(NamedTuple):
    """What a room holds."""

    files: int = 0
    lines: int = 0
    statements: int = 0

    def plus(self, other: Size) -> Size:
        """Returns both together."""
        return Size(*(one + more for one, more in zip(self, other, strict=True)))


# ── what is there ───────────────────────────────────────────────────────────────────────────────────────────────────
def sources(root: Path, revision: str = "") -> Sources:
    """Returns the files that git tracks, as they lie below `root`; with a revision, as that commit has them."""
    return _at(root, revision) if revision else _here(root)


def _here(root: Path) -> Sources:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, check=True, capture_output=True)
    paths = [path for path in listed.stdout.decode().splitlines() if path.endswith(".py")]
    return {path: (root / path).read_text("utf-8") for path in paths if (root / path).is_file()}


def _at(root: Path, revision: str) -> Sources:
    packed = subprocess.run(["git", "archive", revision], cwd=root, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        wanted = [member for member in tar if member.isfile() and member.name.endswith(".py")]
        return {member.name: _text(tar, member) for member in wanted}


def _text(tar: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = tar.extractfile(member)
    assert file
    return file.read().decode(errors="replace")


def room_of(path: str) -> str:
    """Returns the room of a Python file, such as `swarm/algo`; empty: it lies in none."""
    match path.split("/"):
        case ["swarm", "plugins", name, _, *_]:
            return f"swarm/plugins/{name}"
        case ["swarm", "plugins", _]:
            return ""
        case ["swarm", name, _, *_]:
            return f"swarm/{name}"
        case ["swarm" | "tests" | "benchmarks" | "services" as top, *_]:
            return top
    return ""


def rooms(root: Path) -> set[str]:
    """Returns the rooms that have Python files below a folder."""
    tops = ("swarm", "tests", "benchmarks", "services")
    found = {room_of(file.relative_to(root).as_posix()) for top in tops for file in (root / top).rglob("*.py")}
    return found - {""}


# ── what it measures ────────────────────────────────────────────────────────────────────────────────────────────────
def sizes(files: Sources) -> dict[str, Size]:
    """Returns the size of each room, and of `core`, `plugins` and `tests`, which are made of rooms."""
    found: dict[str, Size] = {}
    for path, text in files.items():
        if room := room_of(path):
            one = Size(1, text.count("\n"), statements(text))
            for key in {room, _whole(room)}:
                found[key] = found.get(key, Size()).plus(one)
    return found


def _whole(room: str) -> str:
    if room.startswith("swarm/plugins/"):
        return "plugins"
    return "core" if room.startswith("swarm") else room


@cache
def statements(text: str) -> int:
    """Returns the statements of a module without docstrings."""
    nodes = list(ast.walk(ast.parse(text)))
    return sum(isinstance(node, ast.stmt) and not _is_text(node) for node in nodes)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def budgets(root: Path) -> dict[str, int]:
    """Returns the lines that the tree of docs/development.md gives each room."""
    (tree,) = re.findall(r"## The tree\n.*?```\n(.*?)```", (root / PAGE).read_text("utf-8"), re.DOTALL)
    found, base = {}, ""
    for line in tree.splitlines():
        if head := re.match(r"(swarm/(?:plugins/)?)(?:\s|$)(?!\s*\d)", line):
            base = head[1]
        elif one := re.match(r"  (\S+)\s+(\d+)  ", line):
            found["swarm" if one[1] == "*.py" else base + one[1].rstrip("/")] = int(one[2])
        elif top := re.match(r"(\w+)/\s+(\d+)  ", line):
            found[top[1]] = int(top[2])
    return found


# ── how it is said ──────────────────────────────────────────────────────────────────────────────────────────────────
def report(now: Sources, before: Sources | None, given: Mapping[str, int]) -> Iterator[str]:
    """Yields the lines to print.

    Args:
        before: the state to compare with; None: none.
        given: room -> budget, lines.
    """
    here, there = sizes(now), sizes(before) if before is not None else None
    wholes = ("core", "plugins", "services", "benchmarks", "tests")
    yield f"{'room':24}{'files':>7}{'lines':>8}{'budget':>8}{'statements':>12}" + (
        "  change: files, lines, statements" if there else ""
    )
    yield from (_line(room, here, there, given) for room in sorted({*here, *(there or {})} - {*wholes}))
    yield from (_line(whole, here, there, given) for whole in wholes if whole in here)


def _line(room: str, here: Mapping[str, Size], there: Mapping[str, Size] | None, given: Mapping[str, int]) -> str:
    size = here.get(room, Size())
    name = "swarm/*.py" if room == "swarm" else room
    line = f"{name:24}{size.files:>7}{size.lines:>8}{given.get(room, ''):>8}{size.statements:>12}"
    if there is None or size == (before := there.get(room, Size())):
        return line
    return line + "  (" + ", ".join(f"{now - then:+d}" for now, then in zip(size, before, strict=True)) + ")"


def main() -> int:
    """Prints the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--base", help="a commit to compare with", default="")
    base: str = parser.parse_args().base
    for line in report(sources(ROOT), sources(ROOT, base) if base else None, budgets(ROOT)):
        sys.stdout.write(f"{line}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
