"""Reads docs/development.md: its rooms, its route, its recipes, and every path and name on it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "development.md"
_NAMED = re.compile(r"`([\w.-]+(?:/[\w.-]+)*(?:\.(?:py|md|toml|jsonl)|/))(?::([A-Za-z_][\w.]*))?`")


class Named(NamedTuple):
    """A file or folder that the page names, and what in it."""

    path: str
    name: str
    """Such as `Worker.run`; empty: the file as a whole."""

    def __str__(self) -> str:
        return f"{self.path}:{self.name}" if self.name else self.path


def section(title: str) -> str:
    """Returns the text under a heading of the page, with the headings below it."""
    text = PAGE.read_text("utf-8")
    level, _, _ = title.partition(" ")
    (found,) = re.findall(rf"^{re.escape(title)}\n(.*?)(?=^#{{1,{len(level)}}} |\Z)", text, re.DOTALL | re.MULTILINE)
    return str(found)


def named_in(text: str) -> list[Named]:
    """Returns what stands between backquotes as a path, or a path and a name, in the order of the text."""
    return [Named(*found) for found in _NAMED.findall(text)]


def route() -> list[Named]:
    """Returns the functions that a round passes, in order; their paths are below `swarm/`."""
    return [one for one in named_in(section("## A round, from question to update")) if one.name]


def recipes() -> dict[str, list[str]]:
    """Returns the steps of each recipe, by what is added: "a loss"."""
    parts = re.split(r"^### To add (.+)\n", section("## Recipes"), flags=re.MULTILINE)[1:]
    return {
        name: re.findall(r"^\d+\. (.*)$", text, re.MULTILINE)
        for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


def problem(named: Named, root: Path) -> str:
    """Returns what is wrong with a path and name below a folder; empty: both exist."""
    file = root / named.path
    if not file.exists():
        return f"{named}: there is no such file"
    if named.name and named.name not in defined(ast.parse(file.read_text("utf-8"))):
        return f"{named}: the file has no such name"
    return ""


def defined(tree: ast.AST, prefix: str = "") -> set[str]:
    """Returns the functions, classes, methods and assigned names of a module, methods as `Class.method`."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            found |= {prefix + node.name} | defined(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(prefix + node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {prefix + target.id for target in targets if isinstance(target, ast.Name)}
    return found
