"""A question's text from a row: the name of a column, or a text with columns in braces.

    question = "prompt"                        the column prompt
    question = "{question}\\n{choices}"         two columns; {{ and }} are braces

Text is put in as it is. A list becomes lines, "A. ", "B. " before them; all else is JSON.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from typing import Any

import msgspec

MOST = 1_000_000
"""Characters of a text."""
_PART = re.compile(r"\{\{|\}\}|\{([^{}]+)\}")


def columns_of(template: str) -> tuple[str, ...]:
    """Returns the columns that a template needs, each once."""
    if "{" not in template:
        return (template,)
    return tuple(dict.fromkeys(found[1] for found in _PART.finditer(template) if found[1]))


def fill(template: str, row: Mapping[str, Any], most: int = MOST) -> str:
    """Returns the text. Raises ValueError: it is longer than `most`, however often a template repeats a long column."""
    if "{" not in template:
        return text_of(row[template])
    size = len(template)

    def part(found: re.Match[str]) -> str:
        nonlocal size
        text = text_of(row[found[1]]) if found[1] else found[0][0]
        if (size := size + len(text) - len(found[0])) > most:
            raise ValueError(f"the question has more than {most} characters")
        return text

    return _PART.sub(part, template)


def text_of(value: Any) -> str:
    """Returns the text that stands for a column's value in a question."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and len(value) <= len(string.ascii_uppercase):
        return "\n".join(
            f"{letter}. {text_of(item)}" for letter, item in zip(string.ascii_uppercase, value, strict=False)
        )
    return msgspec.json.encode(value).decode()
