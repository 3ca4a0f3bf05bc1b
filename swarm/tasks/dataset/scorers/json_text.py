"""`json`: the answer is JSON of the same value as the column's; with `schema = true`, JSON that its schema allows.

Numbers are equal by value (1 and 1.0), and true is no 1. Names of an object may come in any order, and none twice.
"""

from __future__ import annotations

import json
from typing import Any

from swarm.tasks.dataset.scorers import ScorerRow, schema
from swarm.tasks.dataset.strict_json import equal, loads


def score(row: ScorerRow, answer: str) -> float:
    """1 for an equal value, or a valid one."""
    try:
        value = loads(answer)
    except ValueError:
        return 0.0
    wanted = _wanted(row)
    return float(schema.allows(wanted, value) if row.options.get("schema") else equal(value, wanted))


def check(row: ScorerRow) -> None:
    """Raises ValueError where the column is neither JSON nor a schema."""
    wanted = _wanted(row)
    if row.options.get("schema"):
        schema.check(wanted)


def own(row: ScorerRow) -> str:
    """Returns the column's value as a completion would write it."""
    return row.truth if isinstance(row.truth, str) else json.dumps(row.truth, ensure_ascii=False)


def _wanted(row: ScorerRow) -> Any:
    """Text is JSON; what a file of JSON lines has nested is its value."""
    return loads(row.truth) if isinstance(row.truth, str) else row.truth
