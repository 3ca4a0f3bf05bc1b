"""The history of a run in memory: of each node, per round and stage, the figures that views draw and sum up.

    lines of metrics.jsonl ─▶ NodeHistory.observe ─┬▶ sums, as NodeProgress has them
                                                   └▶ one place in each column
                                                      a row written again ─▶ the same place, and a new version

    node = history["anna"]
    node.column("my_reward")[i], node.rounds[i], node.stages[i]      the i-th row, in the order in which they came
    seen = node.version; ...; node.since(seen)                       places that are new or changed since then

Columns are arrays: 2,000 rounds of 16 nodes take some 20 MB. A figure that a row lacks, or that measures nothing, is
NaN. What a stranger may write any number of (tasks, peers) is held up to a bound.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from msgspec import UNSET

from swarm.records.growing import LONGEST_NAME
from swarm.records.progress import NodeProgress, add_names, fits
from swarm.records.reader import RunReader, RunSnapshot
from swarm.records.rows import MOST_ROWS
from swarm.records.table import columns, is_measured
from swarm.store.run import Run
from swarm.wire.metrics import MetricsRow

MOST_TASKS = 128
"""Tasks of one node, by name; further ones are left out."""
MOST_TASK_FIGURES = 16_000_000
"""Figures of tasks of all nodes together: as many rows as are held have 32 of them."""
MOST_MODELS = 100
"""Models whose groups one node trained on, by name."""
MOST_TRAINED_ON = 300
"""Peers of whom it is held how many groups a node trained on."""
MOST_OF_GROUPS = 32 * 2**20
"""Characters of the names of the groups that one node trained on: some 300,000 rows. Of further ones they are not held.
"""
MOST_HELD = 500_000
"""Rows of all nodes together: some 250 MB."""
NAN = math.nan


COLUMNS = (
    *("my_reward", "timestamp", "answer_tag_rate", "reward_given_tagged", "full_answer_rate", "finished_rate"),
    *("zero_advantage_local", "local_groups", "external_wanted", "external_groups", "staleness", "executor_busy"),
    *("seconds_round", "seconds_generate", "seconds_gather", "seconds_train", "seconds_wait", "bytes_published"),
    *("bytes_fetched", "endpoint_requests", "memory_allocated", "memory_total", "memory_free"),
    *("store_writes", "store_lists", "store_reads"),
)
"""Figures that a history has of each row: those of docs/metrics.md, by the same names."""
_INDEX = {name: index for index, name in enumerate(COLUMNS)}
_WIDTH = len(COLUMNS)
_figures = attrgetter(*COLUMNS)
_NAMES = (
    *("stage", "task_rewards", "task_tag_rates", "external_by_peer", "external_by_model", "trained_on"),
    *("model", "role"),
)
_REWARDS = ("my_reward", "answer_tag_rate", "reward_given_tagged", "full_answer_rate", "finished_rate")
"""They measure nothing where a node that does not train had no answers."""


@dataclass
class HistoryRoom:
    """Bounds how many more rows, and figures of tasks, all histories of a run may hold together."""

    left: int = MOST_HELD
    task_figures: int = MOST_TASK_FIGURES


@dataclass
class TaskHistory:
    """One task of a node: the rounds in which it was asked."""

    places: array[int] = field(default_factory=lambda: array("L"))
    """Places of the node's rows, in their order."""
    reward: array[float] = field(default_factory=lambda: array("d"))
    """Mean reward per completion."""
    tag_rate: array[float] = field(default_factory=lambda: array("d"))
    """Share of its completions with a closed answer; NaN where it was not counted."""

    def put(self, place: int, reward: float, tag_rate: float) -> None:
        """Hold both for a place that has none."""
        at = bisect_left(self.places, place)
        self.places.insert(at, place)
        self.reward.insert(at, reward)
        self.tag_rate.insert(at, tag_rate)

    def index(self, place: int) -> int | None:
        """Returns where among `places` a place stands; None: the task was not asked there."""
        at = bisect_left(self.places, place)
        return at if at < len(self.places) and self.places[at] == place else None

    def forget(self, place: int) -> bool:
        """Hold nothing for a place; False: it held nothing."""
        at = self.index(place)
        if at is not None:
            del self.places[at], self.reward[at], self.tag_rate[at]
        return at is not None


class NodeHistory(NodeProgress):
    """Holds the rows of one node, one place per round and stage: the last row of each counts."""

    form = columns(*NodeProgress.form.__struct_fields__, *COLUMNS, *_NAMES)

    def __init__(self, room: HistoryRoom | None = None, epoch: int = 0) -> None:
        """Make one without rows.

        Args:
            epoch: counts how often the node's file was found to be another one, read from its start.
        """
        super().__init__()
        self.epoch = epoch
        self.rounds: array[int] = array("q")
        self.stages: array[int] = array("q")
        self.tasks: dict[str, TaskHistory] = {}
        self.trained_on: Counter[str] = Counter()
        """Peer -> its groups that the node trained on, over all rows, those of rounds done again included."""
        self.last_trained_on: dict[str, int] = {}
        """The same of its last row."""
        self.external_by_model: Counter[str] = Counter()
        """Model -> groups of peers that it wrote and the node trained on, counted as in trained_on."""
        self._groups: list[str] = []
        """By place the names of the groups that it trained on, each on a line of its own."""
        self._groups_size = 0
        self.model = ""
        """Name as its last row names it."""
        self.role = ""
        """Role of a node that does not train."""
        self.not_held = 0
        """Rows beyond those that are held, of this node or of all."""
        self.is_ordered = True
        """The rows came in the order of their rounds and stages."""
        self._room = room or HistoryRoom()
        self._figures: array[float] = array("d")
        """COLUMNS of the first place, of the second one, and so on."""
        self._places: dict[tuple[int, int], int] = {}
        self._written: array[int] = array("L")
        """Place of each row, in the order in which they came: what is new since a version."""

    def __len__(self) -> int:
        """Places."""
        return len(self.rounds)

    @property
    def version(self) -> int:
        """Returns rows that were taken in."""
        return len(self._written)

    def since(self, version: int) -> list[int]:
        """Returns places that are new, or were written again, since this version; in their order."""
        return sorted(set(self._written[version:]))

    def column(self, name: str) -> Sequence[float]:
        """Returns one of COLUMNS, by place."""
        return self._figures[_INDEX[name] :: _WIDTH]

    def figure(self, name: str, place: int) -> float:
        """Returns one of COLUMNS at one place."""
        return self._figures[place * _WIDTH + _INDEX[name]]

    @property
    def last_place(self) -> int | None:
        """Returns the place that was written last."""
        return self._written[-1] if self._written else None

    def in_order(self) -> Sequence[int]:
        """Returns places by round and stage."""
        if self.is_ordered:
            return range(len(self))
        return sorted(range(len(self)), key=lambda place: (self.rounds[place], self.stages[place]))

    def one_per_round(self) -> list[int]:
        """Returns, in the order of rounds, the place of each round's last stage, which says what came of the round."""
        return list({self.rounds[place]: place for place in self.in_order()}.values())

    def add_up(self, rows: Sequence[MetricsRow]) -> None:
        super().add_up(rows)
        for row in rows:
            self._put(row)

    def _put(self, row: MetricsRow) -> None:
        place = self._places.get((row.round, row.stage))
        if place is not None:
            start = place * _WIDTH
            self._figures[start : start + _WIDTH] = array("d", _figures_of(row))
            self._groups_size -= len(self._groups[place])
            for held in self.tasks.values():  # done again, a round may ask others
                self._room.task_figures += held.forget(place)
        elif (place := self._next_place(row)) is not None:
            self._figures.extend(_figures_of(row))
        else:
            self.not_held += 1
            return
        self._written.append(place)
        self._hold_names(row, place)

    def _next_place(self, row: MetricsRow) -> int | None:
        """Returns where a row of another round belongs; None: no more are held."""
        place = len(self.rounds)
        if place >= MOST_ROWS or self._room.left <= 0:
            return None
        self._room.left -= 1
        if place and (row.round, row.stage) < (self.rounds[-1], self.stages[-1]):
            self.is_ordered = False
        self._places[row.round, row.stage] = place
        self._groups.append("")
        self.rounds.append(row.round)
        self.stages.append(row.stage)
        return place

    def _hold_names(self, row: MetricsRow, place: int) -> None:
        self.model = row.model[:LONGEST_NAME]
        self.role = "" if row.role is UNSET else row.role[:LONGEST_NAME]
        models = {model[:LONGEST_NAME]: groups for model, groups in row.external_by_model.items()}
        whole = add_names(self.external_by_model, models, MOST_MODELS)
        for name, reward in row.task_rewards.items():
            held = self.tasks.get(name)
            if held is None and fits(self.tasks, name, MOST_TASKS):
                held = self.tasks[name] = TaskHistory()
            if held is None or self._room.task_figures <= 0:
                whole = False
            else:
                self._room.task_figures -= 1
                held.put(place, reward, row.task_tag_rates.get(name, NAN))
        self.last_trained_on = {}
        for peer, groups in row.external_by_peer.items():
            if fits(self.trained_on, peer, MOST_TRAINED_ON):
                self.trained_on[peer] += groups
                self.last_trained_on[peer] = groups
            else:
                whole = False
        self._take_groups(row.trained_on, place)
        if not whole:
            self.odd.count("cut", f"names of round {row.round}")

    def _take_groups(self, groups: Sequence[str], place: int) -> None:
        names = "\n".join(["", *groups, ""]) if groups else ""
        self._groups[place] = names if self._groups_size + len(names) <= MOST_OF_GROUPS else ""
        self._groups_size += len(self._groups[place])

    def places_trained_on(self, group: str) -> list[int]:
        """Returns places of the rows that name a group, `node/round/stage/slot`, among those that were trained on."""
        line = f"\n{group}\n"
        return [place for place, names in enumerate(self._groups) if line in names]


def _figures_of(row: MetricsRow) -> list[float]:
    """COLUMNS of a row, with what rows of every version imply, and NaN for what it lacks or what measures nothing."""
    figures = [NAN if value is UNSET else value for value in _figures(row)]
    if row.reward_given_tagged is UNSET and row.answer_tag_rate > 0:
        figures[_INDEX["reward_given_tagged"]] = min(1.0, row.my_reward / row.answer_tag_rate)
    if not is_measured(row):
        for name in _REWARDS:
            figures[_INDEX[name]] = NAN
    return figures


History = Mapping[str, NodeHistory]
"""Node -> what its rows are; nodes that have logs."""


class HistoryReader(RunReader):
    """Follows a run, and keeps what the rows of each node say.

    reader = HistoryReader(run)
    history = reader.look()          # a second look costs what has come since
    history["anna"].column("my_reward")
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run, begin=self._begin_history)
        self.history: dict[str, NodeHistory] = {}
        self._room = HistoryRoom()

    def look(self) -> History:
        """Returns the history by now; the same objects as before, extended. Blocking.

        Raises:
            StoreError: the place itself fails.
        """
        return self.history if self.refresh().progress else {}

    def _begin_history(self, node: str) -> NodeHistory:
        before = self.history.pop(node, None)
        self._room.left = MOST_HELD - sum(map(len, self.history.values()))
        held = (len(task.places) for of_node in self.history.values() for task in of_node.tasks.values())
        self._room.task_figures = MOST_TASK_FIGURES - sum(held)
        self.history[node] = NodeHistory(self._room, before.epoch + 1 if before else 1)
        return self.history[node]


def read_to_sum_up(run: Run) -> tuple[dict[str, NodeHistory], RunSnapshot]:
    """Reads a run once, and returns node -> its history, by name, of nodes that have rows; and the run that was read.

    Raises:
        StoreError: the place itself fails.
    """
    reader = HistoryReader(run)
    now = reader.refresh()
    return {node: reader.history[node] for node in sorted(now.progress) if len(reader.history[node])}, now
