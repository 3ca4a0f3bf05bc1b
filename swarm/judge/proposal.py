"""Proposes which of the tasks that were measured a model can learn from: a mixture, and why the others are left out.
Pure.

MeasuredTask of each task ─▶ proposed ─▶ Proposal: its tasks are the universe's, and each of them gives an informative
                                     group of five at least, and four of five at most
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from swarm.config.task_table import as_mixture
from swarm.judge.measured import MeasuredTask
from swarm.tasks.universe import Universe

LEAST, MOST = 0.2, 0.8
"""Shares of a task's groups that are informative."""


class Proposal(msgspec.Struct, frozen=True):
    """Says which tasks to ask."""

    mixture: str | None
    """Mixture as SWARM_MIXTURE has it; None: there is none."""
    tasks: tuple[str, ...]
    left_out: dict[str, str]
    """Task -> why."""


def proposed(measured: Sequence[MeasuredTask], universe: Universe) -> Proposal:
    """Returns the tasks whose groups are informative often enough, by the weights that the universe has.

    Args:
        measured: of the universe's tasks; of others nothing is said.
    """
    known = {one.task: one for one in measured if one.task in universe.profiles}
    left_out = {task: why for task, one in known.items() if (why := _why_left_out(one))}
    tasks = tuple(task for task in universe.profiles if task in known and task not in left_out)
    mixture = universe.mixture_of({task: universe.weights[task] for task in tasks}) if tasks else None
    return Proposal(as_mixture(mixture.weights) if mixture else None, tasks, left_out)


def _why_left_out(one: MeasuredTask) -> str:
    """Empty if it is not."""
    share = one.informative.mean
    if LEAST <= share <= MOST:
        return ""
    said = f"{share:.0%} of its groups are informative"
    if share > MOST:
        return f"{said}, more than {MOST:.0%}: rewards differ whatever is answered"
    if one.tagged.mean == 0:
        return f"{said}: no completion has a closed <answer>"
    if one.reward.mean < 0.5:
        right, tagged = one.pass_at_1.mean, one.tagged.mean
        return f"{said}: too hard, {right:.0%} of the completions are right, {tagged:.0%} have a closed <answer>"
    return f"{said}: too easy, {one.pass_at_1.mean:.0%} of the completions are right"


def toml_tables(table: Mapping[str, Mapping[str, Any]]) -> str:
    """Definitions of tasks as a settings file has them."""
    return "\n\n".join(
        "\n".join([f"[tasks.{_key(name)}]", *(f"{_key(key)} = {_value(value)}" for key, value in parameters.items())])
        for name, parameters in table.items()
    )


def _key(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else _text(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_value(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return _text(value)


def _text(value: object) -> str:
    """Returns a text, number or truth value: as JSON has it, but for a character that TOML wants escaped too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
