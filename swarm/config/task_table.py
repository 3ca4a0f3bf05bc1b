"""The form of the tasks that a run defines for itself, and of the mixtures that its nodes ask.

[tasks.chain_sum]        ─┐
max_terms = 4             ├▶ the setting task_table: name ─▶ parameters ─▶ swarm.tasks.definitions
weight = 2               ─┘
SWARM_MIXTURE=chain_sum=2+gsm8k          one node's weights, a list of which `swarm up` deals out
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeGuard

from msgspec import Meta

from swarm.errors import ConfigError

Parameters = Mapping[str, Any]
"""Parameters of one task, as JSON has them, the key that names its family included."""
TaskTable = Annotated[
    dict[str, dict[str, Any]],
    Meta(min_length=1, max_length=256, description="a JSON object, task -> its parameters; in a settings file tables"),
]
FILE_KEYS = ("dataset", "python")
"""Keys whose values are local paths; in the experiment they are file names beside a `sha256`."""
SCORING = "scoring"
"""Which of a task's ways to reward; a table that does not say it has the first."""
NEWEST_SCORING = 2
"""Scoring of reasoning-gym's datasets: 1 for a right answer, 0 for any other; the first is the library's own."""
WEIGHT = "weight"
"""How often a task is drawn, beside the others; no part of what it asks."""
MOST_WEIGHT = 1e6


def recorded(parameters: Parameters) -> dict[str, Any]:
    """Returns the parameters as the experiment has them: of files their names alone."""
    return {key: re.split(r"[/\\]", value)[-1] if key in FILE_KEYS else value for key, value in parameters.items()}


def from_file(tables: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Returns the tables of a settings file; paths that are there below its folder become absolute.

    A table of reasoning-gym's gets the newest scoring where it names none. A table from anywhere else is left as it is:
    an experiment or a record without the key was begun when there was one scoring alone.
    """
    return {
        name: newest(_with_paths(table, folder)) if isinstance(table, dict) else table for name, table in tables.items()
    }


def newest(table: Parameters) -> dict[str, Any]:
    """Returns a table as a new run has it, which names its scoring if it is one of reasoning-gym's."""
    of_another_family = any(key in table for key in (*FILE_KEYS, "verifiers"))
    return dict(table) if of_another_family else {SCORING: NEWEST_SCORING, **table}


def _with_paths(table: dict[str, Any], folder: Path) -> dict[str, Any]:
    paths = {key: folder / table[key] for key in FILE_KEYS if isinstance(table.get(key), str)}
    return table | {key: str(path.absolute()) for key, path in paths.items() if path.exists()}


def is_weight(value: object) -> TypeGuard[float]:
    """Tells whether a task may have this weight."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MOST_WEIGHT


def weights_of(mixture: str, setting: str) -> dict[str, float]:
    """Returns task -> weight, of `chain_sum=2+gsm8k`; 1 where none is said. Raises ConfigError."""
    found: dict[str, float] = {}
    for part in mixture.split("+"):
        task, _, text = part.strip().partition("=")
        weight = _number(text) if text else 1.0
        if not task or task in found or not is_weight(weight):
            raise ConfigError(
                f"{setting}: expected tasks with weights above 0, such as `chain_sum=2+gsm8k`, each once, "
                f"got {mixture!r:.200}"
            )
        found[task] = weight
    return found


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def as_mixture(weights: Mapping[str, float]) -> str:
    """Returns the mixture as it is written in a variable."""
    return "+".join(task if weight == 1 else f"{task}={weight:g}" for task, weight in weights.items())


def foreign_files(tables: Mapping[str, Parameters]) -> Iterable[str]:
    """Datasets that are not the name of a file and the SHA-256 of its content, as an experiment has them.

    A path could be any file of who reads the table, or one of the hub's, and without a digest it would be taken.
    """
    for table in tables.values():
        name, sha256 = (table.get(key) for key in ("dataset", "sha256"))
        known = isinstance(sha256, str) and _SHA256.fullmatch(sha256)
        if "dataset" in table and not (known and isinstance(name, str) and _FILE_NAME.fullmatch(name)):
            yield f"{name!s:.80} with the SHA-256 {sha256!s:.80}"


_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,127}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
