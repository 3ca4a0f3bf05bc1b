"""Makes what `swarm top` shows at one moment, and the same as plain text; pure.

Status, history ─▶ frame_of ─▶ Frame ─┬ render: text of a width, for pipes and files
                                      └ swarm.plugins.top.app: the same in a terminal, with keys
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from swarm.harmless import printable
from swarm.records.history import History, NodeHistory
from swarm.views.groups import columns_of, folded
from swarm.views.status import NodeStatus, Status, clock_line
from swarm.views.text import age, count, counts, shorten, size, table

COLUMNS = ("node", "state", "seen", "round", "reward", "curve", "I/J", "busy", "learns from", "memory")
LEFT = (0, 1, 5, 8)
"""Columns that are aligned left."""
SPARKS = 12
"""Characters of a node's curve."""
SPARKS_OF_ALL = 40
LONGEST_STATE = 32
MOST_NODES = 200
MOST_NOTES = 4
LONGEST_NOTE = 200
MOST_TEACHERS = 3
MOST_TASKS = 32
_LEVELS = "▁▂▃▄▅▆▇█"


class NodeLine(NamedTuple):
    """One node, as text but for what colours it."""

    node: str
    live: bool
    cells: tuple[str, ...]
    """Cells of COLUMNS."""


class Frame(NamedTuple):
    """All of one moment."""

    head: tuple[str, ...]
    nodes: tuple[NodeLine, ...]
    more_nodes: int
    """That are not shown."""
    notes: tuple[str, ...]
    """What is wrong, and whom nodes lack."""


def frame_of(status: Status, history: History) -> Frame:
    """Makes the frame of a run by now."""
    most = _most(history.values())
    recorded = not status.made_by
    lines = [_line(node, history.get(node.node), most, recorded) for node in status.nodes[:MOST_NODES]]
    more = max(0, len(status.nodes) - MOST_NODES)
    return Frame(_head(status, history, most), tuple(lines), more, _notes(status))


def _head(status: Status, history: History, most: float) -> tuple[str, ...]:
    live = sum(node.live for node in status.nodes)
    lines = [
        f"{printable(status.experiment)}: {live} of {len(status.nodes)} nodes alive, in {printable(status.path)}",
        clock_line(status),
        _pace(status),
        _reward(history, most),
    ]
    return tuple(line for line in lines if line)


def _pace(status: Status) -> str:
    rates = [node.tokens_per_second for node in status.nodes if node.live and node.tokens_per_second is not None]
    said = [
        f"{age(status.seconds_per_round)} per round" if status.seconds_per_round is not None else "",
        f"{count(sum(rates))} tokens per second" if rates else "",
        f"about {age(status.seconds_left)} left" if status.seconds_left is not None else "",
    ]
    return ", ".join(filter(None, said)) if not status.finished else ""


def _reward(history: History, most: float) -> str:
    rounds = by_round(history, "my_reward")
    if not rounds:
        return ""
    last, rewards = [*rounds.values()][-1], [fmean(values) for values in rounds.values()]
    spread = f"{fmean(last):.3f} ({min(last):.3f} to {max(last):.3f})"
    return f"reward {spread}  {sparkline(rewards, SPARKS_OF_ALL, most)}  0 to {most:.3g}"


def by_round(history: History, column: str) -> dict[int, list[float]]:
    """Returns round -> the figures of the nodes that have one, each of its last stage; rounds in order."""
    found: dict[int, list[float]] = {}
    for node in history.values():
        values = node.column(column)
        for place in node.one_per_round():
            if not math.isnan(values[place]):
                found.setdefault(node.rounds[place], []).append(values[place])
    return dict(sorted(found.items()))


def _most(nodes: Iterable[NodeHistory]) -> float:
    """Returns the highest point of all curves, which share one scale."""
    points = (point for node in nodes for point in buckets(_rewards(node), SPARKS))
    return max((point for point in points if not math.isnan(point)), default=0.0)


def _rewards(node: NodeHistory) -> list[float]:
    column = node.column("my_reward")
    return [column[place] for place in node.one_per_round()]


def buckets(values: Sequence[float], width: int) -> list[float]:
    """Returns as many means of neighbours as there is room for, or the values where all find room; NaN: nothing
    measured."""
    if len(values) <= width:
        return list(values)
    ends = [len(values) * place // width for place in range(width + 1)]
    parts = [[v for v in values[a:b] if not math.isnan(v)] for a, b in pairwise(ends)]
    return [fmean(part) if part else math.nan for part in parts]


def sparkline(values: Sequence[float], width: int, most: float) -> str:
    """Returns a curve from 0 to `most` in so many characters at most; a gap where nothing was measured."""
    return "".join(_spark(value, most) for value in buckets(values, width))


def _spark(value: float, most: float) -> str:
    if math.isnan(value):
        return " "
    share = value / most if most > 0 else 0.0
    return _LEVELS[min(len(_LEVELS) - 1, max(0, round(share * (len(_LEVELS) - 1))))]


def _line(node: NodeStatus, history: NodeHistory | None, most: float, recorded: bool) -> NodeLine:
    """`recorded`: the run's rows have all columns, and not those alone that another program writes."""
    cells = (
        shorten(node.node, 20),
        shorten(node.state or node.status, LONGEST_STATE),
        node.seen or "-",
        str(node.round) if node.round >= 0 else "-",
        f"{node.last_reward:.3f}" if node.last_reward is not None else "-",
        sparkline(_rewards(history), SPARKS, most) if history else "",
        *(_last(history) if history and recorded else ("-", "-", "", "-")),
    )
    return NodeLine(node.node, node.live, cells)


def _last(history: NodeHistory) -> tuple[str, str, str, str]:
    """I/J, the share of time that it computed, whom it learns from and its device's memory, by its last row."""
    place = history.last_place
    if place is None:
        return "-", "-", "", "-"
    figures = {name: history.figure(name, place) for name in _OF_LAST_ROW}
    local, wanted, busy = (figures[name] for name in ("local_groups", "external_wanted", "executor_busy"))
    return f"{local:.0f}/{wanted:.0f}", f"{busy:.0%}", learns_from(history.last_trained_on), _memory(figures)


_OF_LAST_ROW = ("local_groups", "external_wanted", "executor_busy", "memory_allocated", "memory_free", "memory_total")


def _memory(figures: Mapping[str, float]) -> str:
    held, free, total = (figures[f"memory_{name}"] for name in ("allocated", "free", "total"))
    if math.isnan(held):
        return "-"
    if math.isnan(free) or math.isnan(total) or not 0 <= free <= total or not total:
        return size(held)
    return f"{size(held)}, {1 - free / total:.0%}"


def learns_from(teachers: Mapping[str, int]) -> str:
    """Says whose groups a node trained on in its last round, and how many of each."""
    ordered = sorted(teachers.items(), key=lambda item: (-item[1], item[0]))
    names = [f"{shorten(peer, 16)} {groups}" for peer, groups in ordered[:MOST_TEACHERS]]
    left = len(ordered) - MOST_TEACHERS
    return ", ".join(names) + (f" and {left} more" if left > 0 else "")


def _notes(status: Status) -> tuple[str, ...]:
    """Returns what is wrong, the gravest first."""
    said = [f"hint {hint.code}, {', '.join(hint.nodes)}: {hint.evidence}" for hint in status.hints]
    said += [f"{node.node} trained on {node.shortage}" for node in status.nodes if node.live and node.shortage]
    lines = [shorten(line, LONGEST_NOTE) for line in said[:MOST_NOTES]]
    left = len(said) - MOST_NOTES
    return (*lines, *([f"and {left} more: `swarm status`"] if left > 0 else []))


def render(frame: Frame, width: int) -> str:
    """Renders the frame as text, with no line wider than the terminal."""
    nodes = table(COLUMNS, [line.cells for line in frame.nodes], left=LEFT) if frame.nodes else "no node has registered"
    more = [f"and {frame.more_nodes} more nodes"] if frame.more_nodes else []
    parts = [frame.head, [*nodes.split("\n"), *more], frame.notes]
    return "\n\n".join("\n".join(fitted(line, width) for line in part) for part in parts if part)


def fitted(line: str, width: int) -> str:
    """Cut to the width."""
    if columns_of(line) <= width:
        return line
    return folded(line, width)[0] if " " not in line.strip() else line[: max(1, width - 1)].rstrip() + "…"


def node_detail(node: NodeStatus, history: NodeHistory | None, width: int) -> str:
    """Returns one node in full: what it is, its curve, its tasks, whom it learnt from, what it refused."""
    said = [
        f"{shorten(node.node, 64)}: {shorten(node.role, 20)}, {shorten(node.model, 60) or 'no model named'}",
        f"{shorten(node.state or node.status, 200)}; last seen {node.seen or 'never'} ago",
        f"{node.rounds} rounds, cumulative reward {node.cumulative_reward or 0.0:.3f}",
        f"{count(node.tokens_generated)} tokens sampled, {count(node.tokens_trained)} trained on",
        f"refused of peers: {shorten(counts(node.refused_files), 400)}",
    ]
    if node.shortage:
        said.append(shorten(node.shortage, LONGEST_NOTE))
    if history is not None and len(history):
        said += ["", *_curves(history, width), "", *_tasks(history), "", *_teachers(history)]
    return "\n".join(fitted(line, width) for line in said)


_CURVES = ("my_reward", "answer_tag_rate", "zero_advantage_local", "executor_busy", "external_groups", "seconds_round")


def _curves(history: NodeHistory, width: int) -> list[str]:
    lines, places = [], history.one_per_round()
    for name in _CURVES:
        column = history.column(name)
        values = [column[place] for place in places]
        known = [value for value in values if not math.isnan(value)]
        if known:
            most = max(known)
            lines.append(f"{name:22} {known[-1]:8.3g}  {sparkline(values, max(8, width - 50), most)}  0 to {most:.3g}")
    return lines


def _tasks(history: NodeHistory) -> list[str]:
    rows = [
        (shorten(name, 32), f"{fmean(task.reward):.3f}", f"{fmean(task.reward[-10:]):.3f}", str(len(task.reward)))
        for name, task in sorted(history.tasks.items())[:MOST_TASKS]
        if task.reward
    ]
    return table(("task", "mean reward", "of the last 10", "rounds asked"), rows).split("\n") if rows else []


def _teachers(history: NodeHistory) -> list[str]:
    named = ", ".join(f"{shorten(peer, 24)} {groups}" for peer, groups in history.trained_on.most_common(12))
    return [f"groups trained on by publisher: {named or 'none'}"]
