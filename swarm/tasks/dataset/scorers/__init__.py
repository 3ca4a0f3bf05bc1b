"""Says what an answer is worth, by the scorer's name.

All are pure functions of a ScorerRow, and run in the bounded children of a scoring server alone; only the scorer
`tests` executes what it reads, which is why it has a `trial` instead (swarm.tasks.trial).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

_HERE = "swarm.tasks.dataset.scorers"
Tolerance = Annotated[float, Meta(ge=0, le=1e300)]


class ScorerRow(NamedTuple):
    columns: Mapping[str, Any]
    truth: Any
    """What is in the answer's column; after `answer_after`, where that is given."""
    options: Mapping[str, Any]
    """Options of the scorer, as the settings have them."""

    @property
    def text(self) -> str:
        return self.truth if isinstance(self.truth, str) else str(self.truth)


class ScorerFunctions(NamedTuple):
    score: Callable[[ScorerRow, str], float]
    """Returns the reward of one answer, in [0, 1]. Raises whatever it likes."""
    check: Callable[[ScorerRow], object] = lambda _row: None
    """Raises ValueError where no answer can be scored against this row."""
    own: Callable[[ScorerRow], str] = lambda row: row.text
    """Returns the row's own answer as a completion would say it."""
    prepare: Callable[[], None] = lambda: None
    """Imports what is heavy, in a scoring server alone."""


class DatasetScorer(NamedTuple):
    """A scorer, as nodes know it without its module."""

    functions: str
    """Where its ScorerFunctions are, as module:object."""
    options: Mapping[str, Any] = MappingProxyType({})
    """Name -> type, as msgspec converts to it."""
    columns: tuple[str, ...] = ()
    """Those of the options whose values are names of columns."""
    packages: tuple[str, ...] = ()
    """Distributions that decide rewards."""
    extra: str = ""
    """Extra of ours, which brings it."""
    executes: bool = False
    """Answers are executed: see swarm.tasks.trial."""
    scoring: int = 1
    """Version of its way to reward: tables say it from 2 on, and a run of another one is refused."""
    answers: bool = True
    """The column holds an answer, which earns 1."""
    strict: bool = True
    """It fits no column of which most answers do not."""


SCORERS: Mapping[str, DatasetScorer] = {
    "exact": DatasetScorer(f"{_HERE}.text:EXACT", {"ignore_case": bool}),
    "number": DatasetScorer(f"{_HERE}.number:NUMBER", {"tolerance": Tolerance, "relative": Tolerance}, scoring=2),
    "choice": DatasetScorer(f"{_HERE}.text:CHOICE"),
    "json": DatasetScorer(f"{_HERE}.json_text:JSON"),
    "regex": DatasetScorer(f"{_HERE}.text:REGEX", {"ignore_case": bool}, answers=False),
    "math": DatasetScorer(
        f"{_HERE}.math_text:MATH", packages=("math-verify", "latex2sympy2_extended", "sympy"), extra="math", scoring=2
    ),
    "tests": DatasetScorer(
        f"{_HERE}.unit_tests:TESTS",
        {"entry_point": str, "prefix": str, "setup": str, "partial": bool},
        columns=("entry_point", "prefix", "setup"),
        executes=True,
        answers=False,
    ),
}
CUSTOM = DatasetScorer("", strict=False)
"""A function of the user's own."""
