"""Summary of what an experiment learned, computed from the histories of its nodes, and its text form.

    node -> NodeHistory ─┬▶ all rows                                ─▶ sums, seconds
                         └▶ the last stage of the rounds at both ends ─▶ trends: the first WINDOW rounds, and the last

A node's rounds count at an end if they are among the run's first or last WINDOW rounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from heapq import nlargest
from math import isnan
from statistics import fmean
from typing import Any

import msgspec

from swarm.records.hints import Hint
from swarm.records.history import NodeHistory, read_to_sum_up
from swarm.records.made_by import made_by, unknown_columns
from swarm.records.reader import RunSnapshot
from swarm.records.table import Odd
from swarm.store.run import Run
from swarm.views.requests import Requests, render_requests, requests_of
from swarm.views.text import age, counts, render_hints, render_maker, render_odd, shorten, table

WINDOW = 10
"""Rounds that are averaged at the start and at the end."""
MOST_TASKS = 1000
"""Names of tasks cost who writes a row nothing."""


class Trend(msgspec.Struct, frozen=True):
    """One figure at the start and at the end of a run, None where nothing was measured."""

    first: float | None
    last: float | None

    @property
    def ratio(self) -> float | None:
        """Last to first."""
        return self.last / self.first if self.first and self.last is not None else None


NO_TREND = Trend(None, None)
_TRENDS = {
    "full_answer_rate": "full_answer_rate",
    "tagged": "answer_tag_rate",
    "given_tagged": "answer_tag_rate",
}
"""Field of the summary -> column without which it is unknown."""


class NodeSummary(msgspec.Struct, frozen=True):
    """One node's part."""

    node: str
    model: str
    rounds: int
    reward: Trend
    cumulative_reward: float
    """Sum over its rounds of its mean reward per completion."""
    external_groups: int | None
    """None where nobody counted them, as in a run of another program."""


class Summary(msgspec.Struct, frozen=True):
    """A run as a whole. Rewards and shares are means over nodes per round, then over rounds. What is given tagged is a
    ratio of sums over rows, so that a node that tags much has a larger part in it."""

    nodes: tuple[NodeSummary, ...]
    rounds: int
    """Distinct rounds with at least one row."""
    window: int
    """Rounds in `first` and in `last`: ten, or half the run if that is shorter."""
    reward: Trend
    ratio: float | None
    full_answer_rate: Trend
    """Share of completions with the full reward: free of the floors that some tasks give."""
    tagged: Trend
    """Share of completions with a closed `<answer>`: the format."""
    given_tagged: Trend
    """Mean reward of these: the content. The others earn 0, so this is known of rows of every version."""
    tasks: dict[str, Trend]
    """Mean reward, over the rounds in which the task came up."""
    task_tagged: dict[str, Trend]
    """Shares of rows that counted a task's tags: those of older versions did not."""
    task_given_tagged: dict[str, Trend]
    """Means of the same rows."""
    cumulative_reward: float
    """Sum over nodes and rounds of the node's mean reward, the SAPO paper's headline figure."""
    external_groups: int | None
    external_by_model: dict[str, int]
    duration_seconds: float
    """From the start of the first round to the end of the last, by the nodes' clocks as far as the seconds that they
    measured of their rounds allow: a clock that jumped adds nothing, and neither does the time for which all stopped.
    """
    rounds_per_minute: float
    out_of_range: dict[str, Odd] = {}
    """Node -> its rows that were left out, or in which a number was clamped."""
    made_by: str = ""
    """Another program that made the run, such as `rl-swarm`; what it does not record is None. Empty: this one."""
    requests: Requests | None = None
    """What its workers asked of a bucket; null for a run in a folder."""
    hints: tuple[Hint, ...] = ()
    """What makes nodes useless although nothing fails."""
    stages: tuple[Trend, ...] = ()
    """Mean reward of each stage, of a run whose rounds have several."""


def summarise_run(run: Run) -> Summary:
    """Returns the summary of an experiment, whoever made it. Raises StoreError: its place fails."""
    return summary_of(*read_to_sum_up(run))


def summary_of(sums: Mapping[str, NodeHistory], now: RunSnapshot) -> Summary:
    """Returns the same of a run that was read. Raises StoreError: its place fails."""
    requests = requests_of(now.progress.values(), now.run.store.facts().spent)
    return without(summarise(sums, now.hints(), requests), unknown_columns(now.run), made_by(now.run))


def without(summary: Summary, unknown: Set[str], maker: str) -> Summary:
    """Returns the summary of a run that another program made; what needs columns that it lacks is unknown."""
    if not unknown:
        return summary
    lacking = {field: NO_TREND for field, column in _TRENDS.items() if column in unknown}
    nodes = tuple(msgspec.structs.replace(node, external_groups=None) for node in summary.nodes)
    return msgspec.structs.replace(summary, nodes=nodes, external_groups=None, made_by=maker, **lacking)


def summarise(
    nodes: Mapping[str, NodeHistory], hints: Sequence[Hint] = (), requests: Requests | None = None
) -> Summary:
    """Summarise node -> its history, by name, as records.history.read_to_sum_up gives them.

    Trends are those of each round's last stage, sums those of all.
    """
    histories = nodes.values()
    numbers = sorted({number for of_node in histories for number in of_node.rounds})
    window = min(WINDOW, max(1, len(numbers) // 2))
    ends = _Ends(histories, numbers[:window], numbers[-window:])
    tasks = {task: ends.of_task(task) for task in _tasks(histories)}
    reward, seconds = ends.trend(ends.figures("my_reward")), _duration(histories)
    return Summary(
        nodes=tuple(_node(node, of_node, ends) for node, of_node in nodes.items()),
        rounds=len(numbers),
        window=window,
        reward=reward,
        ratio=reward.ratio,
        full_answer_rate=ends.trend(ends.figures("full_answer_rate")),
        tagged=ends.trend(ends.figures("answer_tag_rate")),
        given_tagged=ends.ratio(ends.figures("my_reward", "answer_tag_rate")),
        tasks={task: ends.trend((number, reward) for number, reward, _ in rows) for task, rows in tasks.items()},
        task_tagged={task: ends.trend((number, tags) for number, _, tags in rows) for task, rows in tasks.items()},
        task_given_tagged={task: ends.ratio(rows) for task, rows in tasks.items()},
        stages=_by_stage(histories, ends),
        cumulative_reward=_sum(histories, "my_reward"),
        external_groups=round(_sum(histories, "external_groups")),
        external_by_model=dict(sum((of_node.external_by_model for of_node in histories), Counter[str]())),
        duration_seconds=seconds,
        rounds_per_minute=60.0 * len(numbers) / seconds if seconds else 0.0,
        out_of_range={node: of_node.odd for node, of_node in nodes.items() if of_node.odd},
        hints=tuple(hints),
        requests=requests,
    )


class _Ends:
    """The rows at the start and at the end of a run, of some nodes: the last stage of each round. A figure is NaN where
    nothing was measured."""

    def __init__(self, nodes: Iterable[NodeHistory], first: Collection[int], last: Collection[int]) -> None:
        """`first`, `last`: the rounds."""
        self.first, self.last = frozenset(first), frozenset(last)
        both = self.first | self.last
        places = [(of_node, place) for of_node in nodes for place in of_node.one_per_round()]
        self._rows = [(of.rounds[place], of, place) for of, place in places if of.rounds[place] in both]

    def figures(self, *columns: str) -> list[tuple[Any, ...]]:
        """Returns round and figures of each row."""
        return [(number, *(of.figure(name, place) for name in columns)) for number, of, place in self._rows]

    def of_task(self, task: str) -> list[tuple[int, float, float]]:
        """Returns round, reward and share of tagged completions of each row in which a task came up."""
        found = []
        for number, of_node, place in self._rows:
            held = of_node.tasks.get(task)
            if held is not None and (at := held.index(place)) is not None:
                found.append((number, held.reward[at], held.tag_rate[at]))
        return found

    def trend(self, figures: Iterable[tuple[int, float]]) -> Trend:
        """Returns the means at both ends of round and figure of each row: over nodes per round, then over rounds."""
        by_round: dict[int, list[float]] = {}
        for number, figure in figures:
            if not isnan(figure):
                by_round.setdefault(number, []).append(figure)
        means = {number: fmean(of_round) for number, of_round in by_round.items()}
        ends = [[mean for number, mean in means.items() if number in end] for end in (self.first, self.last)]
        return Trend(*(fmean(end) if end else None for end in ends))

    def ratio(self, shares: Iterable[tuple[int, float, float]]) -> Trend:
        """Returns at both ends what was earned over what was tagged, of round, earned and tagged of each row."""
        counted = [row for row in shares if not isnan(row[1] + row[2])]
        ends = [[row for row in counted if row[0] in end] for end in (self.first, self.last)]
        sums = [(sum(earned for _, earned, _ in end), sum(tagged for *_, tagged in end)) for end in ends]
        return Trend(*(earned / tagged if tagged > 0 else None for earned, tagged in sums))


def _sum(nodes: Iterable[NodeHistory], column: str) -> float:
    return sum(figure for of_node in nodes for figure in of_node.column(column) if not isnan(figure))


def _by_stage(nodes: Collection[NodeHistory], ends: _Ends) -> tuple[Trend, ...]:
    stages = range(1 + max((stage for of_node in nodes for stage in of_node.stages), default=0))
    if len(stages) == 1:
        return ()
    rewards = [row for of in nodes for row in zip(of.rounds, of.stages, of.column("my_reward"), strict=True)]
    return tuple(ends.trend((number, reward) for number, at, reward in rewards if at == stage) for stage in stages)


def _tasks(nodes: Iterable[NodeHistory]) -> list[str]:
    """Returns the tasks that came up, by name; of more than MOST_TASKS those that most rows have."""
    rows = sum((Counter({name: len(of.places) for name, of in node.tasks.items()}) for node in nodes), Counter[str]())
    return sorted(nlargest(MOST_TASKS, rows, key=rows.__getitem__))


def _node(node: str, of_node: NodeHistory, ends: _Ends) -> NodeSummary:
    own = _Ends([of_node], ends.first, ends.last)
    return NodeSummary(
        node=node,
        model=of_node.model,
        rounds=len(set(of_node.rounds)),
        reward=own.trend(own.figures("my_reward")),
        cumulative_reward=_sum([of_node], "my_reward"),
        external_groups=round(_sum([of_node], "external_groups")),
    )


def _duration(nodes: Collection[NodeHistory]) -> float:
    """Returns a duration no less than the rounds of one node, one after the other, and no more than the longest of each
    round together."""
    columns = ("timestamp", "seconds_round", "seconds_wait")
    rows = [row for of in nodes for row in zip(of.rounds, of.stages, *map(of.column, columns), strict=True)]
    if not rows:
        return 0.0
    by_clocks: float = max(end for *_, end, _, _ in rows) - min(end - lasted for *_, end, lasted, _ in rows)
    least = max(_sum([of_node], "seconds_round") for of_node in nodes)
    if not any(waited for *_, waited in rows):  # of a version, or another program, that did not measure it
        return max(least, by_clocks)
    longest: dict[tuple[int, int], float] = {}
    for number, stage, _, lasted, waited in rows:
        longest[number, stage] = max(longest.get((number, stage), 0.0), lasted + waited)
    return max(least, min(by_clocks, sum(longest.values())))


def render(summary: Summary) -> str:
    """Returns the summary as text, at most 100 columns wide."""
    said = render_odd(summary.out_of_range)
    if not summary.rounds:
        return "\n".join([_nothing(summary.made_by), *said])
    names = (f"first {summary.window}", f"last {summary.window}", "last/first")
    spans = ("reward: first", "last", "tagged: first", "last", "given tagged: first", "last")
    tasks = [_task_cells(task, summary) for task in summary.tasks]
    nodes = [_node_cells(node) for node in summary.nodes]
    parts = [
        render_maker(summary.made_by),
        _totals(summary),
        table(("rounds", *names), _measures(summary)),
        table(("task", *spans), tasks) if tasks else "",
        table(("node", "model", "rounds", *names, "cumulative"), nodes, left=(0, 1)),
        render_requests(summary.requests),
        "\n".join(said),
        render_hints(summary.hints),
    ]
    return "\n\n".join(part for part in parts if part)


def _nothing(maker: str) -> str:
    if maker:
        return f"made by {maker}, which left no reward of any round; `swarm validate` says what there is"
    return "no node has finished a round yet"


def _totals(summary: Summary) -> str:
    external = "-" if summary.external_groups is None else str(summary.external_groups)
    if summary.external_by_model:
        external += f" ({shorten(counts(summary.external_by_model), 60)})"
    return (
        f"{summary.rounds} rounds by {len(summary.nodes)} nodes in {age(summary.duration_seconds)}, "
        f"{summary.rounds_per_minute:.1f} rounds per minute\n"
        f"cumulative reward {summary.cumulative_reward:.2f}\n"
        f"external groups   {external}"
    )


def _measures(summary: Summary) -> list[tuple[str, ...]]:
    return [
        ("mean reward", *_cells(summary.reward)),
        *((f"  of stage {stage}", *_cells(trend)) for stage, trend in enumerate(summary.stages)),
        ("tagged", *_cells(summary.tagged)),
        ("reward given tagged", *_cells(summary.given_tagged)),
        ("full answers", *_cells(summary.full_answer_rate)),
    ]


def _task_cells(task: str, summary: Summary) -> tuple[str, ...]:
    trends = (summary.tasks[task], summary.task_tagged[task], summary.task_given_tagged[task])
    return (shorten(task, 28), *(_figure(value) for trend in trends for value in (trend.first, trend.last)))


def _node_cells(node: NodeSummary) -> tuple[str, ...]:
    head = (shorten(node.node, 24), shorten(node.model, 20), str(node.rounds))
    return (*head, *_cells(node.reward), f"{node.cumulative_reward:.2f}")


def _cells(trend: Trend) -> tuple[str, str, str]:
    return (_figure(trend.first), _figure(trend.last), f"{trend.ratio:.2f}x" if trend.ratio is not None else "-")


def _figure(value: float | None) -> str:
    return f"{value:.3f}" if value is not None else "-"
