"""Reads the text below each field of a class, its meaning, from the source: there is no other copy of it."""

from __future__ import annotations

import ast
import sys
from dataclasses import is_dataclass
from itertools import pairwise
from pathlib import Path


def meanings(cls: type) -> dict[str, str]:
    """Field -> its docstring on one line; fields without one are left out. Of a dataclass those inherited, too."""
    declared = [base for base in cls.__mro__ if base is cls or is_dataclass(base)]
    return {name: text for base in declared for name, text in _meanings(base).items()}


def _meanings(cls: type) -> dict[str, str]:
    source = Path(str(sys.modules[cls.__module__].__file__)).read_text("utf-8")
    body = next(n.body for n in ast.parse(source).body if isinstance(n, ast.ClassDef) and n.name == cls.__name__)
    return {
        node.target.id: " ".join(after.value.value.split())
        for node, after in pairwise(body)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str)
    }
