"""The tasks of a taskset, by number, and the SHA-256 of them and of the package that has them."""

from __future__ import annotations

import array
import hashlib
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from swarm.plugins.verifiers.definition import MOST_ROWS
from swarm.plugins.verifiers.environment import OpenedEnvironment, refused, said
from swarm.tasks.dataset.loading import is_held_out
from swarm.tasks.definitions import refuse_other, sha256_of

ENDLESS_ROWS = 1_000
"""Rows of a taskset that never ends."""


class TasksetRows(NamedTuple):
    """Holds a taskset's tasks, and which of their numbers are asked by whom."""

    tasks: tuple[Any, ...]
    training: array.array[int]
    """Numbers of the rows that runs ask."""
    held_out: array.array[int]
    """Numbers of those that judges and exams ask: the same where none are held out."""


def load_rows(opened: OpenedEnvironment) -> TasksetRows:
    """Returns the first tasks, as many as the definition says. Raises ConfigError."""
    definition, taskset = opened.definition, opened.env.taskset
    most = definition.rows or (MOST_ROWS + 1 if taskset.bounded else ENDLESS_ROWS)
    try:
        tasks = tuple(islice(taskset, most))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary: somebody's taskset may raise anything
        raise refused(definition, f"did not load its tasks: {said(error)}") from None
    if not 0 < len(tasks) <= MOST_ROWS:
        raise refused(definition, f"has {'no tasks' if not tasks else f'more than {MOST_ROWS:,} tasks: say rows'}")
    training, held_out = array.array("L"), array.array("L")
    for number, task in enumerate(tasks):
        (held_out if is_held_out(_text(task), definition.held_out) else training).append(number)
    if definition.held_out and not (training and held_out):
        raise refused(definition, f"has {len(tasks)} tasks, which held_out = {definition.held_out} does not part")
    return TasksetRows(tasks, training, held_out or training)


def _text(task: Any) -> str:
    """Rows that ask the same are on one side; an endless game's are known by all that they are."""
    return str(task.data.prompt_text or task.hash)


def rows_digest(rows: TasksetRows) -> str:
    """Returns SHA-256 of what the library takes for the content of each."""
    return hashlib.sha256("".join(task.hash for task in rows.tasks).encode()).hexdigest()


def source_digest(opened: OpenedEnvironment) -> str:
    """Returns SHA-256 of the package's Python files: of each its name, a zero byte and its digest."""
    file = Path(opened.module.__file__)
    root = file.parent
    paths = sorted(root.rglob("*.py")) if file.name == "__init__.py" else [file]
    all_ = hashlib.sha256()
    for path in paths:
        all_.update(path.relative_to(root).as_posix().encode(errors="surrogateescape") + b"\0")
        all_.update(bytes.fromhex(sha256_of(path)))
    return all_.hexdigest()


def require(opened: OpenedEnvironment, rows: TasksetRows) -> None:
    """See that package and rows are those that the run was begun with. Raises ConfigError."""
    definition = opened.definition
    refuse_other(definition.name, f"the package of {definition.id}", definition.source_sha256, source_digest(opened))
    refuse_other(definition.name, f"what {definition.id} asks", definition.sha256, rows_digest(rows))
