"""`package.module:function`: a function of the user's own, f(row: dict, answer: str) -> float.

It is imported because its user names it (swarm.config.own_code), and at the very source that the run was begun with; it
runs in the bounded, sandboxed children of a scoring server like any other scorer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from swarm.config import own_code
from swarm.config.own_code import OwnCode
from swarm.tasks.dataset.definition import DatasetDefinition
from swarm.tasks.dataset.scorers import ScorerFunctions
from swarm.tasks.definitions import malformed, refuse_other


def digest(name: str, scorer: str) -> str:
    """Returns SHA-256 of the module's source. Raises ConfigError where there is none."""
    try:
        file = own_code.source_file(_code(name, scorer))
    except (ImportError, ValueError) as error:
        raise malformed(name, f"scorer {scorer}: {error}") from None
    if file is None:
        module = scorer.partition(":")[0]
        raise malformed(name, f"scorer {scorer}: this Python finds no module {module}; install it on every node")
    return hashlib.sha256(file.read_bytes()).hexdigest()


def load(definition: DatasetDefinition) -> ScorerFunctions:
    """Returns the function as a scorer. Raises ConfigError."""
    name, wanted, got = definition.name, definition.scorer_sha256, digest(definition.name, definition.scorer)
    refuse_other(name, f"the module of scorer {definition.scorer}", wanted, got)
    try:
        function: Callable[[dict[str, Any], str], float] = own_code.load(_code(name, definition.scorer))
    except Exception as error:  # noqa: BLE001 - the boundary: somebody's module may raise anything
        raise malformed(name, f"scorer {definition.scorer} cannot be had: {error!r:.300}") from None

    return ScorerFunctions(lambda row, answer: function(dict(row.columns), answer))


def _code(name: str, scorer: str) -> OwnCode:
    """Raises ConfigError: its user did not name it."""
    return own_code.own_code(scorer, f"[tasks.{name}]: scorer", "the task in a settings file of your own (--config)")
