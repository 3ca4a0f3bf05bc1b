"""`tests`: the answer is Python code, and passes the tests of its row; options entry_point, prefix, setup, partial.

    entry_point    column: the name of the function that the tests' `check(candidate)` is called with (HumanEval)
    prefix         column: code that stands before the answer's, such as the imports of a prompt that it goes on with
    setup          column: code that stands before the tests
    partial        the reward is the share of assertions that hold, and not 1 for all

The column holds code, or a list of statements (MBPP). Names that the tests use and define nowhere are functions of the
answer's.
"""

from __future__ import annotations

import functools
from typing import Any

from swarm.tasks.dataset.code import candidate, judge
from swarm.tasks.dataset.scorers import ScorerRow
from swarm.tasks.trial import Trial


def score(_row: ScorerRow, _answer: str) -> float:
    """Never: answers are executed by `trial` alone. Raises RuntimeError."""
    raise RuntimeError("an answer that is code is tried by swarm.tasks.trial alone")


def check(row: ScorerRow) -> None:
    """Raises ValueError where the tests cannot be run, or test nothing."""
    judge.verify(tests_of(row))


def trial(row: ScorerRow, answer: str) -> Trial:
    """Returns how an answer is tried."""
    source = "\n".join(filter(None, [_column(row, "prefix"), candidate.code_of(answer)]))
    return Trial(source, functools.partial(judge.verdict, tests_of(row)))


def tests_of(row: ScorerRow) -> judge.Tests:
    """Returns the row's tests. Raises ValueError."""
    source = "\n".join(filter(None, [_column(row, "setup"), _code(row.truth)]))
    return judge.Tests(source, _column(row, "entry_point"), row.options.get("partial", False))


def _column(row: ScorerRow, option: str) -> str:
    return _code(row.columns[row.options[option]]) if option in row.options else ""


def _code(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    if not isinstance(value, str):
        raise ValueError(f"expected code as text, or a list of statements, got {value!r:.80}")
    return value
