"""What a soak measured, told by quarter; what drifts from one quarter to the next. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import msgspec

QUARTERS = 4
SETTLING = 100
"""Rounds of a life that are not judged: what is loaded once is no drift."""
MIB = 2**20


class Node(msgspec.Struct, frozen=True):
    """One process at one moment."""

    pid: int
    rss: int
    descriptors: int
    watches: int
    threads: int
    cpu: float
    """Seconds of a processor since it was started."""


class Measures(msgspec.Struct, frozen=True):
    """A swarm at one moment."""

    round: int
    at: float
    nodes: dict[str, Node]
    files: dict[str, int] = {}
    """Below each folder of the experiment."""
    logs: dict[str, int] = {}
    """Bytes by name, of all nodes together."""


Figures = dict[str, float | None]
"""Bound -> a node's figure in one quarter, of the lives that have settled; None where there are not two measures."""


@dataclass(frozen=True)
class Quarter:
    """Rounds `first` to `last`, as far as they were measured."""

    first: int
    last: int
    pace: float | None
    """Rounds a second."""
    nodes: dict[str, Figures]
    files: dict[str, int]
    """At its end, as the next."""
    logs: dict[str, int]
    processes: int
    """That lived in it; more than nodes where the soak was started again."""


class Bound(NamedTuple):
    """How far a quarter's figure may lie above that of the quarter before it."""

    share: float
    slack: float
    shown: Callable[[float], str]


MEDIANS: dict[str, Callable[[Node], float]] = {
    "memory": lambda node: node.rss,
    "descriptors": lambda node: node.descriptors,
    "watched folders": lambda node: node.watches,
    "threads": lambda node: node.threads,
}
COST = "processor time per round"
BOUNDS = {
    "memory": Bound(0.05, 4 * MIB, lambda value: f"{value / MIB:.1f} MiB"),
    "descriptors": Bound(0.0, 2, "{:.0f}".format),
    "watched folders": Bound(0.0, 20, "{:.0f}".format),
    "threads": Bound(0.0, 2, "{:.0f}".format),
    COST: Bound(0.25, 0.002, lambda value: f"{1000 * value:.1f} ms"),
}
FILES_A_ROUND = {"rewards": 2, "winners": 2}
"""In folders of which nothing is taken away (docs/retention.md)."""
MORE_FILES = 40
"""That each folder may hold more at the end of a quarter than at the end of the one before, and one more in ten."""
MOST_OF_LINES = 3 * 4096
"""Bytes a round that each kind of log of three nodes may grow by."""


def quarters(measures: Sequence[Measures]) -> list[Quarter]:
    """Four parts of equal length of the rounds that were reached."""
    reached = max((one.round for one in measures), default=0)
    born = _born(measures)
    found = []
    for number in range(QUARTERS):
        first, last = (reached * part // QUARTERS for part in (number, number + 1))
        within = [one for one in measures if first <= one.round <= last]
        if len(within) > 1:
            found.append(_quarter(first, last, within, born))
    return found


def drifts(found: Sequence[Quarter]) -> list[str]:
    """What lies above the quarter before by more than its bound."""
    return [problem for before, now in pairwise(found) for problem in _drifts(before, now)]


def table(found: Sequence[Quarter]) -> list[str]:
    """The quarters as a table of Markdown, a column each."""
    rows = [
        ("rounds", [f"{quarter.first} to {quarter.last}" for quarter in found]),
        ("rounds a second", [_said(quarter.pace, "{:.1f}".format) for quarter in found]),
        ("processes", [str(quarter.processes) for quarter in found]),
        *(
            (f"{what}, {name}", [_said(quarter.nodes[name][what], bound.shown) for quarter in found])
            for what, bound in BOUNDS.items()
            for name in (found[0].nodes if found else ())
        ),
    ]
    folders = sorted({folder for quarter in found for folder in quarter.files})
    rows += [(f"files in `{folder}`", [str(quarter.files.get(folder, 0)) for quarter in found]) for folder in folders]
    logs = sorted({log for quarter in found for log in quarter.logs})
    rows += [(f"`{log}`", [f"{quarter.logs.get(log, 0) / MIB:.1f} MiB" for quarter in found]) for log in logs]
    head = ["quarter", *(str(number + 1) for number in range(len(found)))]
    lines = [head, ["---"] * len(head), *([name, *said] for name, said in rows)]
    return ["| " + " | ".join(line) + " |" for line in lines]


def _born(measures: Sequence[Measures]) -> dict[int, int]:
    """In which round each process was first seen."""
    born: dict[int, int] = {}
    for one in measures:
        for node in one.nodes.values():
            born.setdefault(node.pid, one.round)
    return born


def _quarter(first: int, last: int, within: Sequence[Measures], born: Mapping[int, int]) -> Quarter:
    names = sorted({name for one in within for name in one.nodes})
    return Quarter(
        first,
        last,
        _pace(within),
        {name: _of_node([(one.round, one.nodes[name]) for one in within if name in one.nodes], born) for name in names},
        within[-1].files,
        within[-1].logs,
        len({node.pid for one in within for node in one.nodes.values()}),
    )


def _pace(within: Sequence[Measures]) -> float | None:
    """Rounds a second, while the same processes ran."""
    steps = [
        (later.round - sooner.round, later.at - sooner.at)
        for sooner, later in pairwise(within)
        if {name: node.pid for name, node in sooner.nodes.items()}
        == {name: node.pid for name, node in later.nodes.items()}
    ]
    seconds = sum(seconds for _, seconds in steps)
    return sum(rounds for rounds, _ in steps) / seconds if seconds else None


def _of_node(seen: Sequence[tuple[int, Node]], born: Mapping[int, int]) -> Figures:
    settled = [(round_, node) for round_, node in seen if round_ - born[node.pid] >= SETTLING]
    steps = [
        (round_ - before, node.cpu - sooner.cpu)
        for (before, sooner), (round_, node) in pairwise(settled)
        if sooner.pid == node.pid
    ]
    rounds = sum(rounds for rounds, _ in steps)
    medians = {
        what: statistics.median(of(node) for _, node in settled) if settled else None for what, of in MEDIANS.items()
    }
    return medians | {COST: sum(seconds for _, seconds in steps) / rounds if rounds else None}


def _drifts(before: Quarter, now: Quarter) -> Iterator[str]:
    where = f"between rounds {before.first} to {before.last} and {now.first} to {now.last}"
    for name in sorted(before.nodes.keys() & now.nodes.keys()):
        for what, bound in BOUNDS.items():
            was, became = before.nodes[name][what], now.nodes[name][what]
            if was is not None and became is not None and became > was * (1 + bound.share) + bound.slack:
                yield f"{name}: {what} went from {bound.shown(was)} to {bound.shown(became)} {where}"
    for folder in sorted(now.files):
        more = now.files[folder] - before.files.get(folder, 0)
        may = MORE_FILES + int(1.1 * FILES_A_ROUND.get(folder, 0) * (now.last - before.last))
        if more > may:
            yield f"{folder}: {more} more files {where}, where {may} may come"
    for log in sorted(now.logs):
        more = now.logs[log] - before.logs.get(log, 0)
        may = MOST_OF_LINES * (now.last - before.last)
        if more > may:
            yield f"{log}: {more} more bytes {where}, where {may} may come"


def _said(value: float | None, shown: Callable[[float], str]) -> str:
    return "-" if value is None else shown(value)
