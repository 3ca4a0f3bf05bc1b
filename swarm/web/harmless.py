"""Encodes what leaves for a browser: documents of bounded size as JSON, in which no text changes how others read.

    records ─▶ bounded, cut: at most so long, so many ─▶ encoded: JSON, every text of it printable ─▶ browser, file

Texts are cleaned here alone, in the JSON as a whole: so no field can be forgotten.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from swarm.harmless import printable

LONGEST = 2000
"""Characters of a text that is not an answer."""
MOST = 1000
"""Entries of one list or object."""
_ESCAPE = re.compile(r"\\(u00[01][0-9a-f]|[bfr]|.)")
"""JSON writes of what is not printable the control characters below a blank as escapes, and the others as they are."""


def encoded(document: object) -> str:
    """Encodes a document as JSON without a blank, in which texts hold nothing unprintable but newlines and tabs."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return _ESCAPE.sub(_without_control, printable(text))


def _without_control(escape: re.Match[str]) -> str:
    return "\N{REPLACEMENT CHARACTER}" if escape[1][0] in "ubfr" else escape[0]


def bounded(value: Any, longest: int = LONGEST, most: int = MOST) -> Any:
    """Returns a JSON value with texts, lists and objects cut, and null for what is no finite number."""
    match value:
        case str():
            return cut(value, longest)
        case dict():
            entries = zip(range(most), value.items(), strict=False)
            return {cut(str(name), longest): bounded(entry, longest, most) for _, (name, entry) in entries}
        case list() | tuple():
            return [bounded(entry, longest, most) for entry in value[:most]]
        case float():
            return value if math.isfinite(value) else None
    return value


def cut(text: str, longest: int) -> str:
    """Cuts a text to `longest` characters and adds `...` where it was longer."""
    return text if len(text) <= longest else f"{text[:longest]}..."
