"""`json`: the answer is JSON of the same value as the column's.

Numbers are equal by value (1 and 1.0), and true is no 1. Names of an object may come in any order; of one that
stands twice the last counts.
"""

from __future__ import annotations

import json
from typing import Any

from swarm.tasks.dataset.scorers import ScorerFunctions, ScorerRow
from swarm.tasks.dataset.strict_json import equal, loads


def _score(row: ScorerRow, answer: str) -> float:
    try:
        value = loads(answer)
    except ValueError:
        return 0.0
    return float(equal(value, _wanted(row)))


def _own(row: ScorerRow) -> str:
    """Returns the column's value as a completion would write it."""
    return row.truth if isinstance(row.truth, str) else json.dumps(row.truth, ensure_ascii=False)


def _wanted(row: ScorerRow) -> Any:
    """Text is JSON; what a file of JSON lines has nested is its value. Raises ValueError where it is neither."""
    return loads(row.truth) if isinstance(row.truth, str) else row.truth


JSON = ScorerFunctions(_score, _wanted, _own)
