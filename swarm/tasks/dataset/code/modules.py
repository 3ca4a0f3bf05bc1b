"""Names what tests and answers may import: modules that compute, imported before a child is confined."""

from __future__ import annotations

import importlib
from types import ModuleType

NAMES = (
    *("abc", "array", "base64", "binascii", "bisect", "calendar", "cmath", "collections", "collections.abc"),
    *("contextlib", "copy", "dataclasses", "datetime", "decimal", "difflib", "enum", "fractions", "functools"),
    *("hashlib", "heapq", "itertools", "json", "math", "numbers", "operator", "random", "re", "statistics"),
    *("string", "struct", "textwrap", "time", "types", "typing", "unicodedata", "zlib"),
)


def load() -> dict[str, ModuleType]:
    """Returns all of them, by name."""
    return {name: importlib.import_module(name) for name in NAMES}


MODULES = load()
