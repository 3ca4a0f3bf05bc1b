"""Summary of what an experiment learned, computed from its metrics rows, and its text form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from heapq import nlargest
from operator import itemgetter
from statistics import fmean

import msgspec

from swarm.records.hints import Hint
from swarm.records.made_by import made_by, unknown_columns
from swarm.records.reader import snapshot
from swarm.records.rows import one_per_round, read_to_sum_up
from swarm.records.table import Odd, measured
from swarm.store.run import Run
from swarm.views.requests import Requests, render_requests, requests_of
from swarm.views.text import age, counts, render_hints, shorten, table
from swarm.wire.messages import MetricsRow

WINDOW = 10
"""Rounds that are averaged at the start and at the end."""
LEAST_STILL, STILL_SHARE = 5.0, 0.05
"""Seconds, and share of the running time, from which on a pause is told."""
MOST_ODD_LINES = 5
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
    metrics, odd = read_to_sum_up(run)
    summary = summarise(metrics, odd, *told(run))
    return without(summary, unknown_columns(run), made_by(run))


def told(run: Run) -> tuple[list[Hint], Requests | None]:
    """Returns what a summary says besides the figures of its rows: hints, and the requests made to a bucket."""
    now = snapshot(run)
    return now.hints(), requests_of(run.place, now.progress.values(), run.store.facts().spent)


def without(summary: Summary, unknown: Set[str], maker: str) -> Summary:
    """Returns the summary of a run that another program made; what needs columns that it lacks is unknown."""
    if not unknown:
        return summary
    lacking = {field: NO_TREND for field, column in _TRENDS.items() if column in unknown}
    nodes = tuple(msgspec.structs.replace(node, external_groups=None) for node in summary.nodes)
    return msgspec.structs.replace(summary, nodes=nodes, external_groups=None, made_by=maker, **lacking)


def summarise(
    metrics: Mapping[str, Sequence[MetricsRow]],
    odd: Mapping[str, Odd] | None = None,
    hints: Sequence[Hint] = (),
    requests: Requests | None = None,
) -> Summary:
    """Summarise node -> its rows, one per round and stage, and what was odd, as records.rows.read_to_sum_up gives them.

    Trends are those of each round's last stage, sums those of all.
    """
    nodes = dict(sorted(metrics.items()))
    everything = [row for rows in nodes.values() for row in rows]
    lasts = [row for rows in nodes.values() for row in one_per_round(rows)]
    rows, numbers = measured(lasts), sorted({row.round for row in lasts})
    window = min(WINDOW, max(1, len(numbers) // 2))
    windows = (frozenset(numbers[:window]), frozenset(numbers[-window:]))
    tasks = _by_task(rows)
    counted = [(task, [row for row in own if task in row.task_tag_rates]) for task, own in tasks]
    reward = _trend(((row.round, row.my_reward) for row in rows), *windows)
    seconds, wall = _duration(nodes), _wall(everything)
    return Summary(
        nodes=tuple(_node(node, rows, *windows) for node, rows in nodes.items()),
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
        stages=_by_stage(everything, *windows),
        cumulative_reward=sum(row.my_reward for row in everything),
        external_groups=sum(row.external_groups for row in everything),
        external_by_model=_external_by_model(everything),
        duration_seconds=seconds,
        wall_seconds=wall,
        rounds_per_minute=60.0 * len(numbers) / seconds if seconds else 0.0,
        seconds_sharing=sum(row.seconds_sharing for row in everything),
        seconds_sharing_hidden=sum(row.seconds_sharing_hidden for row in everything),
        out_of_range=dict(odd or {}),
        hints=tuple(hints),
        requests=requests,
    )


def _by_stage(rows: Sequence[MetricsRow], first: frozenset[int], last: frozenset[int]) -> tuple[Trend, ...]:
    stages = range(1 + max((row.stage for row in rows), default=0))
    if len(stages) == 1:
        return ()
    return tuple(_trend(((row.round, row.my_reward) for row in rows if row.stage == s), first, last) for s in stages)


def _by_task(rows: Iterable[MetricsRow]) -> list[tuple[str, list[MetricsRow]]]:
    """Returns each task with the rows in which it came up, by name; of more than MOST_TASKS those most rows have."""
    found: dict[str, list[MetricsRow]] = {}
    for row in rows:
        for task in row.task_rewards:
            found.setdefault(task, []).append(row)
    return sorted(nlargest(MOST_TASKS, found.items(), key=lambda of_task: len(of_task[1])), key=itemgetter(0))


def _node(node: str, rows: Sequence[MetricsRow], first: frozenset[int], last: frozenset[int]) -> NodeSummary:
    return NodeSummary(
        node=node,
        model=rows[-1].model,
        rounds=len(one_per_round(rows)),
        reward=_trend(((row.round, row.my_reward) for row in measured(one_per_round(rows))), first, last),
        cumulative_reward=sum(row.my_reward for row in rows),
        external_groups=sum(row.external_groups for row in rows),
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


def _external_by_model(rows: Iterable[MetricsRow]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for row in rows:
        total.update(row.external_by_model)
    return dict(total)


def _wall(rows: Sequence[MetricsRow]) -> float:
    """Returns the seconds from the start of the first round to the end of the last, as the nodes' clocks say it."""
    numbers = {row.round for row in rows}
    ends = [row.timestamp for row in rows if row.round == max(numbers)]
    starts = [row.timestamp - row.seconds_round for row in rows if row.round == min(numbers)]
    return max(0.0, max(ends, default=0.0) - min(starts, default=0.0))


def _duration(nodes: Mapping[str, Sequence[MetricsRow]]) -> float:
    """Returns a duration no less than the rounds of one node, one after the other, and no more than the longest of each
    round together."""
    rows = [row for of_node in nodes.values() for row in of_node]
    if not rows:
        return 0.0
    by_clocks = max(row.timestamp for row in rows) - min(row.timestamp - row.seconds_round for row in rows)
    least = max(sum(row.seconds_round for row in of_node) for of_node in nodes.values())
    if not any(row.seconds_wait for row in rows):  # of a version, or another program, that did not measure it
        return max(least, by_clocks)
    longest: dict[tuple[int, int], float] = {}
    for row in rows:
        key = (row.round, row.stage)
        longest[key] = max(longest.get(key, 0.0), row.seconds_round + row.seconds_wait)
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


def render_maker(maker: str) -> str:
    """Returns what is to be known of a run that another program made; empty for one of this program."""
    if not maker:
        return ""
    return f"made by {maker}: rewards are brought to means per completion, '-' is what it did not record"


def _nothing(maker: str) -> str:
    if maker:
        return f"made by {maker}, which left no reward of any round; `swarm validate` says what there is"
    return "no node has finished a round yet"


def render_odd(odd: Mapping[str, Odd]) -> list[str]:
    """Returns a line for each of the first nodes with rows out of range, and how many more there are."""
    lines = [
        f"{shorten(node, 24)}: {one}: {shorten(one.example, 80)}" for node, one in sorted(odd.items())[:MOST_ODD_LINES]
    ]
    return lines + ([f"and {len(odd) - len(lines)} more nodes"] if len(odd) > len(lines) else [])


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
