"""`package.module:function`: a function of the user's own, f(row: dict, answer: str) -> float.

It is imported because one's own settings name it, and at the very source that the run was begun with; it runs in the
bounded, sandboxed children of a scoring server like any other scorer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from swarm.tasks.dataset.definition import Definition
from swarm.tasks.dataset.scorers import Row, Score
from swarm.tasks.definitions import malformed, refuse_other


def digest(name: str, scorer: str) -> str:
    """SHA-256 of the module's source. Raises ConfigError where there is none."""
    module = scorer.partition(":")[0]
    try:
        spec = find_spec(module)
    except (ImportError, ValueError) as error:
        raise malformed(name, f"scorer {scorer}: {error}") from None
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        raise malformed(name, f"scorer {scorer}: this Python finds no module {module}; install it on every node")
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()


def load(definition: Definition) -> Score:
    """The function as a scorer. Raises ConfigError."""
    name, wanted, got = definition.name, definition.scorer_sha256, digest(definition.name, definition.scorer)
    refuse_other(name, f"the module of scorer {definition.scorer}", wanted, got)
    module, _, attribute = definition.scorer.partition(":")
    try:
        function: Callable[[dict[str, Any], str], float] = getattr(import_module(module), attribute)
    except Exception as error:  # noqa: BLE001 - the boundary: somebody's module may raise anything
        raise malformed(name, f"scorer {definition.scorer} cannot be had: {error!r:.300}") from None

    def score(row: Row, answer: str) -> float:
        return function(dict(row.columns), answer)

    return score
