"""A row of metrics as names and finite numbers: what trackers of experiments take. Pure.

Columns keep their names (docs/metrics.md); `task_rewards` and its like become `task_rewards/TASK`, later stages
`stage_1/...`. Names of strangers are made harmless, and bounded in length and number.
"""

from __future__ import annotations

import math
import re

from swarm.wire.metrics import MetricsRow

LEFT_OUT = frozenset({"timestamp", "round", "stage", "schema_version"})
"""Columns that say where a row stands, not what came of it."""
MOST_ENTRIES = 64
"""Entries of one column, the first by name."""
LONGEST_NAME = 64
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


def values_of(row: MetricsRow) -> dict[str, float]:
    """Name -> number; texts, lists and tables in tables are left out, as is what is no finite number."""
    prefix = f"stage_{row.stage}/" if row.stage else ""
    found: dict[str, float] = {}
    for column in row.__struct_fields__:
        value = getattr(row, column)
        if column in LEFT_OUT:
            continue
        if isinstance(value, dict):
            named = {name_of(name): one for name, one in sorted(value.items())[:MOST_ENTRIES]}
            found |= {f"{prefix}{column}/{name}": float(one) for name, one in named.items() if _is_number(one)}
        elif _is_number(value):
            found[f"{prefix}{column}"] = float(value)
    return found


def name_of(text: str) -> str:
    """Letters, digits, `_`, `.` and `-`, at least one and at most LONGEST_NAME."""
    return _UNSAFE.sub("_", text[:LONGEST_NAME]) or "_"


def _is_number(value: object) -> bool:
    return isinstance(value, bool | int | float) and abs(value) < 1e300 and math.isfinite(value)
