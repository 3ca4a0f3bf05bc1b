"""The form of the tasks that a run defines for itself, and of the mixtures that its nodes ask.

[tasks.chain_sum]        ─┐
max_terms = 4             ├▶ the setting task_table: name ─▶ parameters ─▶ swarm.tasks.definitions
weight = 2               ─┘
--tasks mine.jsonl       ── with_files ─▶ the same: a task that the file names
SWARM_MIXTURE=chain_sum=2+gsm8k          one node's weights, a list of which `swarm up` deals out
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
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
KEY_OF_FILE = {".jsonl": "dataset", ".csv": "dataset", ".parquet": "dataset", ".py": "python"}
"""Ending of a file that may be a task's -> the key that names it."""
FITTING = "auto"
"""The scorer of a dataset that its answers choose: `number` where all are numbers, else `exact`."""
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


def with_files(tasks: Sequence[str], table: Mapping[str, Any], source: str) -> tuple[list[str], dict[str, Any]]:
    """Returns names of tasks and a table of them, in which each file that was named is a task of its own.

    Args:
        tasks: names of tasks and paths of files, as a flag, a variable or the user's own settings file has them.
        table: tasks that are defined already; a name of theirs is no file.

    Raises:
        ConfigError: two tasks would have one name.
    """
    names, found = list[str](), dict(table)
    for task in tasks:
        key = None if task.rpartition("/")[2] in table else KEY_OF_FILE.get(Path(task).suffix.lower())
        if key is None:
            names.append(task)
            continue
        name = _name_of_file(task)
        if name in found:
            raise ConfigError(
                f"the file {task!r:.200} from {source} would be the task {name}, and there is one of that name: rename "
                "the file"
            )
        found[name] = {key: task, "scorer": FITTING} if key == "dataset" else {key: task}
        names.append(f"{key}/{name}")
    return names, found


def _name_of_file(path: str) -> str:
    """Returns a task's name that is made of a file's: `my questions.jsonl` becomes `my_questions`."""
    return _NO_NAME.sub("_", Path(path).stem).lstrip(".-")[:64] or "questions"


def newest(table: Parameters) -> dict[str, Any]:
    """Returns a table as a new run has it, which names its scoring if it is one of reasoning-gym's."""
    of_another_family = any(key in table for key in (*FILE_KEYS, "verifiers"))
    return dict(table) if of_another_family else {SCORING: NEWEST_SCORING, **table}


def beside(tasks: object, folder: Path) -> object:
    """Returns the tasks that a settings file names, with the paths of files that lie beside it."""
    if isinstance(tasks, str):
        tasks = tasks.split(",")
    if not isinstance(tasks, list):
        return tasks
    paths = {task: folder / task.strip() for task in tasks if isinstance(task, str)}
    return [str(paths[task].absolute()) if task in paths and paths[task].is_file() else task for task in tasks]


def _with_paths(table: dict[str, Any], folder: Path) -> dict[str, Any]:
    paths = {key: folder / table[key] for key in FILE_KEYS if isinstance(table.get(key), str)}
    return table | {key: str(path.absolute()) for key, path in paths.items() if path.exists()}


def is_weight(value: object) -> TypeGuard[float]:
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
        if "dataset" in table and not (known and isinstance(name, str) and _is_file_name(name)):
            yield f"{name!s:.80} with the SHA-256 {sha256!s:.80}"


def _is_file_name(name: str) -> bool:
    """Tells whether a name is one of a file in any language, and no path."""
    return bool(name.isprintable() and _FILE_NAME.fullmatch(name)) and len(name.encode()) <= _MOST_BYTES


_NO_NAME = re.compile(r"[^A-Za-z0-9_.-]")
_FILE_NAME = re.compile(r"[^\W][^/\\:*?\"<>|]{0,127}")
_MOST_BYTES = 200
"""Bytes of a file's name, of which a file system takes 255."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
