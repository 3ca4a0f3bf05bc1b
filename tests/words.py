"""Counts what makes the code hard to read by its words: python -m tests.words, or `make check`.

Two things are counted in swarm/: docstrings that open with a word of riddles, and public classes that share a name.
Both may only fall. `--list` shows each docstring that is left.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
RIDDLES = frozenset({"Of", "What", "As", "For"})
"""A docstring that opens with one of these is no sentence that says what a thing does."""

LEFT = 0
"""How many such docstrings of classes and functions are left. It may only fall."""

TWICE: frozenset[str] = frozenset()
"""The names that several public classes may bear: none."""


def riddles(tree: ast.Module) -> Iterator[int]:
    """Yields the line of each class and function whose docstring opens with one of RIDDLES."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            words = (ast.get_docstring(node) or "").split(maxsplit=1)
            if words and words[0] in RIDDLES:
                yield node.lineno


def public_classes(tree: ast.Module) -> list[str]:
    """Returns the names of a module's public classes."""
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def main(listed: bool) -> int:
    """Prints the counts, and what each limit could be. Returns 1 if one is passed, or else 0."""
    found: list[str] = []
    classes: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "swarm").rglob("*.py")):
        tree, name = ast.parse(path.read_text("utf-8")), path.relative_to(ROOT).as_posix()
        found += [f"{name}:{line}" for line in riddles(tree)]
        for kind in public_classes(tree):
            classes[kind].append(name)
    twice = {kind: paths for kind, paths in classes.items() if len(paths) > 1}
    if listed:
        print(*found, sep="\n")  # noqa: T201
    for kind in sorted(twice.keys() - TWICE):
        print(f"{kind} names a class in each of {', '.join(twice[kind])}: give one of them another name")  # noqa: T201
    if len(found) > LEFT:
        print("write docstrings as sentences that say what a thing does: --list shows which open otherwise")  # noqa: T201
    print(_compared("docstrings that open with Of, What, As or For", len(found), LEFT))  # noqa: T201
    print(_compared("names of several public classes", len(twice), len(TWICE)))  # noqa: T201
    return int(len(found) > LEFT or not twice.keys() <= TWICE)


def _compared(what: str, now: int, limit: int) -> str:
    """Returns a line about a count and its limit."""
    if now == limit:
        return f"{what}: {now}"
    return f"{what}: {now}; the limit in tests/words.py " + (f"is {limit}" if now > limit else f"can fall from {limit}")


if __name__ == "__main__":
    sys.exit(main("--list" in sys.argv[1:]))
