"""Reads the text below each field of a class, its meaning, from the source: there is no other copy of it."""

from __future__ import annotations

import ast
import sys
from itertools import pairwise
from pathlib import Path


def meanings(cls: type) -> dict[str, str]:
    """Field -> its docstring on one line, for a class of a module; fields without one are left out."""
    source = Path(str(sys.modules[cls.__module__].__file__)).read_text("utf-8")
    body = next(n.body for n in ast.parse(source).body if isinstance(n, ast.ClassDef) and n.name == cls.__name__)
    return {
        node.target.id: " ".join(after.value.value.split())
        for node, after in pairwise(body)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str)
    }
