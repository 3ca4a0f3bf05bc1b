"""Datasets for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from swarm.config.own_code import TASK_TABLE, of_the_user
from swarm.tasks.definitions import family_of, profile_of
from swarm.tasks.family import QuestionRequest
from swarm.tasks.registry import Families, complete


def json_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """A file of rows."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def sums(count: int) -> list[dict[str, Any]]:
    """Rows that all differ."""
    return [{"question": f"What is {n} + 1?", "answer": f"That makes #### {n + 1}", "n": n} for n in range(count)]


def prepared(folder: Path, name: str = "mine", /, **parameters: Any) -> tuple[Families, dict[str, Any]]:
    """A server's families with one task, all loaded as a server does, and the task as the run records it."""
    tasks = complete(of_the_user(TASK_TABLE, {name: parameters}), folder)
    families = Families((), tasks)
    families.prepare()
    return families, tasks[name]


def request(name: str, parameters: Mapping[str, Any], seed: int, index: int = 0) -> QuestionRequest:
    """The request for a question of a defined task."""
    return QuestionRequest(name, profile_of(name, parameters), seed, index, family_of(name, parameters))
