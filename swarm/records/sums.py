"""Sums up the rows of a run for a summary in one reading: figures of all rounds, whole rows of the first and last ones.

    every row ─ NodeSums ─┬▶ FIGURES by round and stage: a row that is written again replaces what was there
                          ├▶ names of tasks and of models, up to MOST_OF_NAMES
                          └▶ the last stage of the node's first and of its last WINDOW rounds, with all names

A summary holds the first ten rounds of a run against its last ten. Those of them that a node has are among its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from operator import attrgetter

from swarm.records.progress import SUMS, NodeProgress
from swarm.records.reader import RunReader, RunSnapshot
from swarm.records.rows import MOST_ROWS, taking
from swarm.records.table import columns, measured
from swarm.store.run import Run
from swarm.wire.metrics import MetricsRow

WINDOW = 10
"""Rounds that are averaged at the start and at the end."""
MOST_OF_END = 256 * 2**10
"""Characters of the names of tasks and of the model in one row of the ends."""
MOST_OF_NAMES = 4 * 2**20
"""Bytes of the names of tasks and models that are held of one node."""
_OF_NAME = 100
"""Bytes of a name beside its characters, about."""


FIGURES = (
    *("my_reward", "timestamp", "seconds_round", "seconds_wait", "seconds_sharing", "seconds_sharing_hidden"),
    "external_groups",
)
"""Columns that are held of every row."""
_ENDS = ("my_reward", "stage", "model", "full_answer_rate", "answer_tag_rate", "local_groups", "role")
_NAMED = ("task_rewards", "task_tag_rates")
_END = columns(*_ENDS, *_NAMED)
_end = taking(_END)
_key, _figures = attrgetter("round", "stage"), attrgetter(*FIGURES)


class NodeSums(NodeProgress):
    """Sums up the rows of one node, and keeps those of its first and last rounds."""

    form = columns(*SUMS, *FIGURES, *_ENDS, *_NAMED, "external_by_model")

    def __init__(self) -> None:
        super().__init__()
        self.figures: dict[tuple[int, int], tuple[float, ...]] = {}
        """Round and stage -> FIGURES of the row that counts."""
        self.ends: dict[int, MetricsRow] = {}
        """Round -> the row of its last stage, of the first and of the last WINDOW rounds."""
        self.tasks: Counter[str] = Counter()
        """Task -> rows in which it came up."""
        self._models: dict[tuple[int, int], tuple[tuple[str, int], ...]] = {}
        """Round and stage -> external groups by model, where there are any."""
        self._different: dict[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]] = {}
        """Those of all rows, each once."""
        self._room = MOST_OF_NAMES

    def add_up(self, rows: Sequence[MetricsRow]) -> None:
        super().add_up(rows)
        rows = self._with_room(rows)
        self.figures.update(zip(map(_key, rows), map(_figures, rows), strict=True))
        self._take_tasks(rows)
        for row in rows:
            if row.external_by_model or (self._models and _key(row) in self._models):
                self._take_models(row)
        self._take_ends(rows)

    def _with_room(self, rows: Sequence[MetricsRow]) -> Sequence[MetricsRow]:
        """Returns the rows without those above MOST_ROWS."""
        room = MOST_ROWS - len(self.figures)
        if room >= len(rows):
            return rows
        new = {*islice(dict.fromkeys(key for row in rows if (key := _key(row)) not in self.figures), room)}
        return [row for row in rows if (key := _key(row)) in self.figures or key in new]

    def _take_tasks(self, rows: Sequence[MetricsRow]) -> None:
        came_up = Counter(chain.from_iterable(row.task_rewards for row in measured(rows)))
        if not self._holds(came_up.keys() - self.tasks.keys()):
            self.odd.cut_names(f"names of round {rows[0].round}")
            came_up = Counter({task: count for task, count in came_up.items() if task in self.tasks})
        self.tasks.update(came_up)

    def _take_models(self, row: MetricsRow) -> None:
        said = tuple(row.external_by_model.items())
        if said not in self._different and not self._holds(row.external_by_model):
            self.odd.cut_names(f"names of round {row.round}")
            said = ()
        self._models[_key(row)] = self._different.setdefault(said, said)

    def _holds(self, names: Sequence[str] | Mapping[str, int] | set[str]) -> bool:
        """Makes room for names; False: there is none."""
        size = sum(map(len, names)) + _OF_NAME * len(names)
        fits = size <= self._room
        self._room -= size * fits
        return fits

    def _take_ends(self, rows: Sequence[MetricsRow]) -> None:
        found: dict[int, MetricsRow] = {}
        for row in rows:
            held = found.get(row.round) or self.ends.get(row.round)
            if held is None or row.stage >= held.stage:
                found[row.round] = row
        numbers = sorted({*self.ends, *found})
        self.ends = {
            number: self._as_end(found[number]) if number in found else self.ends[number]
            for number in dict.fromkeys((*numbers[:WINDOW], *numbers[-WINDOW:]))
        }

    def _as_end(self, row: MetricsRow) -> MetricsRow:
        end = _end(row)
        if sum(map(len, chain(end.task_rewards, end.task_tag_rates, (end.model,)))) > MOST_OF_END:
            self.odd.cut_names(f"names of round {row.round}")
            end.task_rewards, end.task_tag_rates, end.model = {}, {}, ""
        return end

    @property
    def model(self) -> str:
        """Returns the name of its model in its last round; there is one."""
        return self.ends[max(self.ends)].model

    @property
    def external_by_model(self) -> Counter[str]:
        """Returns external groups by the model that wrote them."""
        total: Counter[str] = Counter()
        for said, rows in Counter(self._models.values()).items():
            for model, groups in said:
                total[model] += groups * rows
        return total


def read_to_sum_up(run: Run) -> tuple[dict[str, NodeSums], RunSnapshot]:
    """Reads a run once, and returns node -> its sums, by name, of nodes that have rows; and the run that was read."""
    found: dict[str, NodeSums] = {}

    def begin(node: str) -> NodeSums:
        found[node] = NodeSums()
        return found[node]

    now = RunReader(run, begin=begin).refresh()
    read = [node for node, of_node in now.progress.items() if of_node.rewards]
    return {node: found[node] for node in sorted(read)}, now
