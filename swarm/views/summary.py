"""Summary of what an experiment learned, computed from the sums of its metrics rows, and its text form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from heapq import nlargest
from operator import add, sub
from statistics import fmean

import msgspec

from swarm.records.hints import Hint
from swarm.records.made_by import made_by, unknown_columns
from swarm.records.reader import RunSnapshot
from swarm.records.sums import FIGURES, WINDOW, NodeSums, read_to_sum_up
from swarm.records.table import Odd, measured
from swarm.store.run import Run
from swarm.views.requests import Requests, render_requests, requests_of
from swarm.views.text import age, counts, render_hints, render_maker, render_odd, shorten, table

LEAST_STILL, STILL_SHARE = 5.0, 0.05
"""Seconds, and share of the running time, from which on a pause is told."""
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
    "full_given_tagged": "answer_tag_rate",
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
    full_given_tagged: Trend
    """Share of these with the full reward."""
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
    wall_seconds: float = 0.0
    """From the start of the first round to the end of the last by the nodes' clocks, with the time for which all
    stopped."""
    seconds_sharing: float = 0.0
    """Seconds of all nodes, in which they published or fetched: read, verified and scored peers' files."""
    seconds_sharing_hidden: float = 0.0
    """The part of it in which they computed as well."""
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


def summary_of(sums: Mapping[str, NodeSums], now: RunSnapshot) -> Summary:
    """Returns the same of a run that was read. Raises StoreError: its place fails."""
    return without(summarise(sums, *told(now)), unknown_columns(now.run), made_by(now.run))


def told(now: RunSnapshot) -> tuple[list[Hint], Requests | None]:
    """Returns what a summary says besides the figures of its rows: hints, and the requests made to a bucket."""
    return now.hints(), requests_of(now.run.place, now.progress.values(), now.run.store.facts().spent)


def without(summary: Summary, unknown: Set[str], maker: str) -> Summary:
    """Returns the summary of a run that another program made; what needs columns that it lacks is unknown."""
    if not unknown:
        return summary
    lacking = {field: NO_TREND for field, column in _TRENDS.items() if column in unknown}
    nodes = tuple(msgspec.structs.replace(node, external_groups=None) for node in summary.nodes)
    return msgspec.structs.replace(summary, nodes=nodes, external_groups=None, made_by=maker, **lacking)


def summarise(nodes: Mapping[str, NodeSums], hints: Sequence[Hint] = (), requests: Requests | None = None) -> Summary:
    """Summarise node -> its sums, by name, as records.sums.read_to_sum_up gives them.

    Trends are those of each round's last stage, sums those of all.
    """
    numbers = sorted({number for of_node in nodes.values() for number in of_node.rewards})
    window = min(WINDOW, max(1, len(numbers) // 2))
    windows = (frozenset(numbers[:window]), frozenset(numbers[-window:]))
    rows = measured(row for of_node in nodes.values() for row in of_node.ends.values())
    tasks = [(task, [row for row in rows if task in row.task_rewards]) for task in _tasks(nodes.values())]
    counted = [(task, [row for row in own if task in row.task_tag_rates]) for task, own in tasks]
    reward = _trend(((row.round, row.my_reward) for row in rows), *windows)
    seconds, wall = _duration(nodes.values()), _wall(nodes.values())
    return Summary(
        nodes=tuple(_node(node, of_node, *windows) for node, of_node in nodes.items()),
        rounds=len(numbers),
        window=window,
        reward=reward,
        ratio=reward.ratio,
        full_answer_rate=_trend(((row.round, row.full_answer_rate) for row in rows), *windows),
        tagged=_trend(((row.round, row.answer_tag_rate) for row in rows), *windows),
        given_tagged=_given([(row.round, row.my_reward, row.answer_tag_rate) for row in rows], *windows),
        full_given_tagged=_given([(row.round, row.full_answer_rate, row.answer_tag_rate) for row in rows], *windows),
        tasks={task: _trend(((row.round, row.task_rewards[task]) for row in own), *windows) for task, own in tasks},
        task_tagged={
            task: _trend(((row.round, row.task_tag_rates[task]) for row in own), *windows) for task, own in counted
        },
        task_given_tagged={
            task: _given([(row.round, row.task_rewards[task], row.task_tag_rates[task]) for row in own], *windows)
            for task, own in counted
        },
        stages=_by_stage(nodes.values(), *windows),
        cumulative_reward=sum(_figures(nodes.values(), "my_reward")),
        external_groups=round(sum(_figures(nodes.values(), "external_groups"))),
        external_by_model=_external_by_model(nodes.values()),
        duration_seconds=seconds,
        wall_seconds=wall,
        rounds_per_minute=60.0 * len(numbers) / seconds if seconds else 0.0,
        seconds_sharing=sum(_figures(nodes.values(), "seconds_sharing")),
        seconds_sharing_hidden=sum(_figures(nodes.values(), "seconds_sharing_hidden")),
        out_of_range={node: of_node.odd for node, of_node in nodes.items() if of_node.odd},
        hints=tuple(hints),
        requests=requests,
    )


def _figures(nodes: Iterable[NodeSums], name: str) -> Iterator[float]:
    """Yields one of Figures of every row that counts."""
    return (row[FIGURES.index(name)] for of_node in nodes for row in of_node.figures.values())


def _by_stage(nodes: Collection[NodeSums], first: frozenset[int], last: frozenset[int]) -> tuple[Trend, ...]:
    stages = range(1 + max((stage for of_node in nodes for _, stage in of_node.figures), default=0))
    if len(stages) == 1:
        return ()
    rewards = [*zip((key for of_node in nodes for key in of_node.figures), _figures(nodes, "my_reward"), strict=True)]
    return tuple(_trend(((of, value) for (of, at), value in rewards if at == stage), first, last) for stage in stages)


def _tasks(nodes: Iterable[NodeSums]) -> list[str]:
    """Returns the tasks that came up, by name; of more than MOST_TASKS those that most rows have."""
    rows = sum((of_node.tasks for of_node in nodes), Counter[str]())
    return sorted(nlargest(MOST_TASKS, rows, key=rows.__getitem__))


def _node(node: str, of_node: NodeSums, first: frozenset[int], last: frozenset[int]) -> NodeSummary:
    return NodeSummary(
        node=node,
        model=of_node.model,
        rounds=len(of_node.rewards),
        reward=_trend(((row.round, row.my_reward) for row in measured(of_node.ends.values())), first, last),
        cumulative_reward=sum(_figures([of_node], "my_reward")),
        external_groups=round(sum(_figures([of_node], "external_groups"))),
    )


def _given(shares: Sequence[tuple[int, float, float]], first: frozenset[int], last: frozenset[int]) -> Trend:
    """Round, what was earned and what was tagged of each row: the sum of the one over that of the other."""
    return Trend(_ratio(shares, first), _ratio(shares, last))


def _ratio(shares: Sequence[tuple[int, float, float]], rounds: frozenset[int]) -> float | None:
    tagged = sum(tagged for number, _, tagged in shares if number in rounds)
    return sum(earned for number, earned, _ in shares if number in rounds) / tagged if tagged > 0 else None


def _trend(values: Iterable[tuple[int, float]], first: frozenset[int], last: frozenset[int]) -> Trend:
    by_round: dict[int, list[float]] = {}
    for number, value in values:
        by_round.setdefault(number, []).append(value)
    means = {number: fmean(values) for number, values in by_round.items()}
    return Trend(_mean(means, first), _mean(means, last))


def _mean(means: Mapping[int, float], rounds: frozenset[int]) -> float | None:
    values = [mean for number, mean in means.items() if number in rounds]
    return fmean(values) if values else None


def _external_by_model(nodes: Iterable[NodeSums]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for of_node in nodes:
        total.update(of_node.external_by_model)
    return dict(total)


def _wall(nodes: Collection[NodeSums]) -> float:
    """Returns the seconds from the start of the first round to the end of the last, as the nodes' clocks say it."""
    rounds = [round_ for of_node in nodes for round_, _ in of_node.figures]
    times = [*zip(rounds, _figures(nodes, "timestamp"), _figures(nodes, "seconds_round"), strict=True)]
    first, last = min(rounds, default=0), max(rounds, default=0)
    ends = [end for round_, end, _ in times if round_ == last]
    starts = [end - lasted for round_, end, lasted in times if round_ == first]
    return max(0.0, max(ends, default=0.0) - min(starts, default=0.0))


def _duration(nodes: Collection[NodeSums]) -> float:
    """Returns a duration no less than the rounds of one node, one after the other, and no more than the longest of each
    round together."""
    if not nodes:
        return 0.0
    ends, lasted = [*_figures(nodes, "timestamp")], [*_figures(nodes, "seconds_round")]
    by_clocks: float = max(ends) - min(map(sub, ends, lasted))
    least: float = max(sum(_figures([of_node], "seconds_round")) for of_node in nodes)
    if not any(_figures(nodes, "seconds_wait")):  # of a version, or another program, that did not measure it
        return max(least, by_clocks)
    longest: dict[tuple[int, int], float] = {}
    keys = (key for of_node in nodes for key in of_node.figures)
    for key, seconds in zip(keys, map(add, lasted, _figures(nodes, "seconds_wait")), strict=True):
        longest[key] = max(longest.get(key, 0.0), seconds)
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
    external = "-" if summary.external_groups is None else summary.external_groups
    return (
        f"{summary.rounds} rounds by {len(summary.nodes)} nodes in {age(summary.duration_seconds)}, "
        f"{summary.rounds_per_minute:.1f} rounds per minute{_stopped(summary)}\n"
        f"cumulative reward {summary.cumulative_reward:.2f}\n"
        f"external groups   {external}{_models(summary.external_by_model)}{_overlap(summary)}"
    )


def _stopped(summary: Summary) -> str:
    """Returns how long the run stood still, where it did."""
    still = summary.wall_seconds - summary.duration_seconds
    if still <= max(LEAST_STILL, STILL_SHARE * summary.duration_seconds):
        return ""
    return f"; {age(summary.wall_seconds)} passed since its first round, {age(still)} of them stopped"


def _overlap(summary: Summary) -> str:
    shared, hidden = summary.seconds_sharing, summary.seconds_sharing_hidden
    if not shared:
        return ""
    return (
        f"\npublished and fetched for {age(shared)} of all nodes' time, "
        f"{age(hidden)} of it while computing ({hidden / shared:.0%})"
    )


def _models(external_by_model: Mapping[str, int]) -> str:
    return f" ({shorten(counts(dict(external_by_model)), 60)})" if external_by_model else ""


def _measures(summary: Summary) -> list[tuple[str, ...]]:
    return [
        ("mean reward", *_cells(summary.reward)),
        *((f"  of stage {stage}", *_cells(trend)) for stage, trend in enumerate(summary.stages)),
        ("tagged", *_cells(summary.tagged)),
        ("reward given tagged", *_cells(summary.given_tagged)),
        ("full answers", *_cells(summary.full_answer_rate)),
        ("full answers given tagged", *_cells(summary.full_given_tagged)),
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
