"""The part of a model card that says how well the model did: its reward over the rounds, by task, and in the exam."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import TypeVar

from msgspec import UNSET

from swarm.records.rows import one_per_round
from swarm.records.table import measured
from swarm.views.markdown import MOST_NAMED, shown, table
from swarm.wire.judge_messages import ExamRow
from swarm.wire.metrics import MetricsRow

MOST_SPANS = 20
"""Rows of the table of rewards."""
MOST_BARS = 60
"""Characters of the curve."""
_BARS = "▁▂▃▄▅▆▇█"
T = TypeVar("T")


def how_it_learned(lived: Sequence[MetricsRow]) -> list[str]:
    """Returns the lines of the section; none where no reward was measured.

    Args:
        lived: rows that count, one per round and stage, in their order.
    """
    rows = measured(one_per_round(lived))
    if not rows:
        return []
    first, last = _ends(rows)
    return [
        "## How it learned",
        "",
        "Mean rewards per completion, own questions, from 0 to 1. Tagged are completions with a closed `<answer>`.",
        "",
        f"    {curve([row.my_reward for row in rows])}  rounds {rows[0].round} to {rows[-1].round}",
        "",
        *table(
            ("rounds", "reward", "tagged", "reward given tagged", "groups of others"),
            [_span(span) for span in _spans(rows, MOST_SPANS)],
        ),
        *table(
            ("task", f"reward in the first {len(first)} rounds", f"in the last {len(last)}"),
            [(shown(task), _mean_of(first, task), _mean_of(last, task)) for task in _tasks(rows)],
        ),
    ]


def curve(values: Sequence[float]) -> str:
    """Draws at most MOST_BARS bars, each the mean of as many values, from 0 to the largest."""
    means = [fmean(span) for span in _spans(values, MOST_BARS)]
    top = max(means, default=0.0)
    return "".join(_BARS[int(mean / top * (len(_BARS) - 1) + 0.5) if top > 0 else 0] for mean in means)


def exam_of(node: str, exam: Iterable[ExamRow]) -> list[str]:
    """Returns the lines of the section on held-out questions; none where the node was not examined."""
    mine = [row for row in exam if row.node_id == node]
    stages = {row.stage or 0 for row in mine}
    last = max((row.rounds_done for row in mine), default=0)
    before = {(row.stage or 0, row.task): row for row in mine if row.rounds_done == 0}
    after = {(row.stage or 0, row.task): row for row in mine if row.rounds_done == last > 0}
    if not after:
        return []
    rows = [
        (
            shown(task) + (f", stage {stage}" if len(stages) > 1 else ""),
            str(row.n),
            *_both("pass_at_1", before.get((stage, task)), row),
            *_both("mean_reward", before.get((stage, task)), row),
        )
        for (stage, task), row in sorted(after.items())[:MOST_NAMED]
    ]
    return [
        "## Exam",
        "",
        f"On held-out questions that training never asks (`swarm judge exam`), before it and after {last} rounds.",
        "",
        *table(("task", "questions", "pass@1 before", "after", "reward before", "after"), rows),
    ]


def _both(column: str, before: ExamRow | None, after: ExamRow) -> tuple[str, str]:
    return _figure(getattr(before, column, None)), _figure(getattr(after, column))


def _spans(values: Sequence[T], most: int) -> list[Sequence[T]]:
    """Returns the values in their order, in at most so many parts of about equal length."""
    parts = min(most, len(values))
    return [values[len(values) * n // parts : len(values) * (n + 1) // parts] for n in range(parts)]


def _span(rows: Sequence[MetricsRow]) -> tuple[str, ...]:
    first, last = rows[0].round, rows[-1].round
    given = [row.reward_given_tagged for row in rows if row.reward_given_tagged is not UNSET]
    return (
        f"{first}" if first == last else f"{first} to {last}",
        _figure(fmean(row.my_reward for row in rows)),
        _figure(fmean(row.answer_tag_rate for row in rows)),
        _figure(fmean(given) if given else None),
        str(sum(row.external_groups for row in rows)),
    )


def _ends(rows: Sequence[MetricsRow]) -> tuple[Sequence[MetricsRow], Sequence[MetricsRow]]:
    """Returns a tenth of the rounds at either end, ten at least where there are twenty."""
    count = min(max(10, len(rows) // 10), (len(rows) + 1) // 2)
    return rows[:count], rows[-count:]


def _tasks(rows: Sequence[MetricsRow]) -> list[str]:
    return sorted({task for row in rows for task in row.task_rewards})[:MOST_NAMED]


def _mean_of(rows: Sequence[MetricsRow], task: str) -> str:
    rewards = [row.task_rewards[task] for row in rows if task in row.task_rewards]
    return _figure(fmean(rewards) if rewards else None)


def _figure(value: float | object | None) -> str:
    return f"{value:.3f}" if isinstance(value, float | int) else "-"
