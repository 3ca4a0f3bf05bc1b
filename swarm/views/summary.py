"""Summary of what an experiment learned, computed from its metrics rows, and its text form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import msgspec

from swarm.views.text import age, counts, shorten, table
from swarm.wire.messages import MetricsRow

WINDOW = 10
"""Rounds that are averaged at the start and at the end."""


class Trend(msgspec.Struct, frozen=True):
    """One figure at the start and at the end of a run, None where nothing was measured."""

    first: float | None
    last: float | None

    @property
    def ratio(self) -> float | None:
        """Last to first."""
        return self.last / self.first if self.first and self.last is not None else None


class NodeSummary(msgspec.Struct, frozen=True):
    """One node's part."""

    node: str
    model: str
    rounds: int
    reward: Trend
    cumulative_reward: float
    """Sum over its rounds of its mean reward per completion."""
    external_groups: int


class Summary(msgspec.Struct, frozen=True):
    """A run as a whole. Rewards are means over nodes per round, then over rounds."""

    nodes: tuple[NodeSummary, ...]
    rounds: int
    """Distinct rounds with at least one row."""
    window: int
    """Rounds in `first` and in `last`: ten, or half the run if that is shorter."""
    reward: Trend
    ratio: float | None
    full_answer_rate: Trend
    """Share of completions with the full reward: free of the floors that some tasks give."""
    tasks: dict[str, Trend]
    cumulative_reward: float
    """Sum over nodes and rounds of the node's mean reward, the SAPO paper's headline figure."""
    external_groups: int
    external_by_model: dict[str, int]
    duration_seconds: float
    """From the start of the first round to the end of the last."""
    rounds_per_minute: float


def summarise(metrics: Mapping[str, Sequence[MetricsRow]]) -> Summary:
    """Summarise node -> its rows, one per round, as records.rows.read_metrics gives them."""
    nodes = dict(sorted(metrics.items()))
    rows = [row for rows in nodes.values() for row in rows]
    numbers = sorted({row.round for row in rows})
    window = min(WINDOW, max(1, len(numbers) // 2))
    first, last = frozenset(numbers[:window]), frozenset(numbers[-window:])
    reward = _trend(((row.round, row.my_reward) for row in rows), first, last)
    seconds = _duration(rows)
    return Summary(
        nodes=tuple(_node(node, rows, first, last) for node, rows in nodes.items()),
        rounds=len(numbers),
        window=window,
        reward=reward,
        ratio=reward.ratio,
        full_answer_rate=_trend(((row.round, row.full_answer_rate) for row in rows), first, last),
        tasks={
            task: _trend(((row.round, row.task_rewards[task]) for row in rows if task in row.task_rewards), first, last)
            for task in sorted({task for row in rows for task in row.task_rewards})
        },
        cumulative_reward=sum(row.my_reward for row in rows),
        external_groups=sum(row.external_groups for row in rows),
        external_by_model=_external_by_model(rows),
        duration_seconds=seconds,
        rounds_per_minute=60.0 * len(numbers) / seconds if seconds else 0.0,
    )


def _node(node: str, rows: Sequence[MetricsRow], first: frozenset[int], last: frozenset[int]) -> NodeSummary:
    return NodeSummary(
        node=node,
        model=rows[-1].model,
        rounds=len(rows),
        reward=_trend(((row.round, row.my_reward) for row in rows), first, last),
        cumulative_reward=sum(row.my_reward for row in rows),
        external_groups=sum(row.external_groups for row in rows),
    )


def _trend(values: Iterable[tuple[int, float]], first: frozenset[int], last: frozenset[int]) -> Trend:
    by_round: dict[int, list[float]] = {}
    for number, value in values:
        by_round.setdefault(number, []).append(value)
    means = {number: fmean(values) for number, values in by_round.items()}
    return Trend(_mean(means, first), _mean(means, last))


def _mean(means: Mapping[int, float], rounds: frozenset[int]) -> float | None:
    values = [mean for number, mean in means.items() if number in rounds]
    return fmean(values) if values else None


def _external_by_model(rows: Iterable[MetricsRow]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for row in rows:
        total.update(row.external_by_model)
    return dict(total)


def _duration(rows: Sequence[MetricsRow]) -> float:
    if not rows:
        return 0.0
    return max(row.timestamp for row in rows) - min(row.timestamp - row.seconds_round for row in rows)


def render(summary: Summary) -> str:
    """The summary as text, at most 100 columns wide."""
    if not summary.rounds:
        return "no node has finished a round yet"
    names = (f"first {summary.window}", f"last {summary.window}", "last/first")
    tasks = [(shorten(task, 40), *_cells(trend)) for task, trend in summary.tasks.items()]
    nodes = [_node_cells(node) for node in summary.nodes]
    parts = [
        _totals(summary),
        table(("rounds", *names), [("mean reward", *_cells(summary.reward)), _full(summary)]),
        table(("task", *names), tasks) if tasks else "",
        table(("node", "model", "rounds", *names, "cumulative"), nodes, left=(0, 1)),
    ]
    return "\n\n".join(part for part in parts if part)


def _totals(summary: Summary) -> str:
    return (
        f"{summary.rounds} rounds by {len(summary.nodes)} nodes in {age(summary.duration_seconds)}, "
        f"{summary.rounds_per_minute:.1f} rounds per minute\n"
        f"cumulative reward {summary.cumulative_reward:.2f}\n"
        f"external groups   {summary.external_groups}{_models(summary.external_by_model)}"
    )


def _models(external_by_model: Mapping[str, int]) -> str:
    return f" ({shorten(counts(dict(external_by_model)), 60)})" if external_by_model else ""


def _full(summary: Summary) -> tuple[str, ...]:
    return ("full answers", *_cells(summary.full_answer_rate))


def _node_cells(node: NodeSummary) -> tuple[str, ...]:
    head = (shorten(node.node, 24), shorten(node.model, 20), str(node.rounds))
    return (*head, *_cells(node.reward), f"{node.cumulative_reward:.2f}")


def _cells(trend: Trend) -> tuple[str, str, str]:
    return (_figure(trend.first), _figure(trend.last), f"{trend.ratio:.2f}x" if trend.ratio is not None else "-")


def _figure(value: float | None) -> str:
    return f"{value:.3f}" if value is not None else "-"
