"""Reads a run while somebody looks: where it stands, its history, and single documents on request."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from swarm.errors import ProtocolError, SwarmError
from swarm.harmless import printable_lines
from swarm.policy.embedded import any_embedded
from swarm.records.archives import LARGEST_FILE
from swarm.records.files import known_experiment
from swarm.records.groups import scaling_of
from swarm.records.history import History, HistoryReader
from swarm.records.liveness import Machine
from swarm.records.rollouts import RolloutFiles, oldest_round
from swarm.records.starts import last_starts
from swarm.store.replication import Replication
from swarm.store.run import Run
from swarm.types import RoundKey
from swarm.views.status import StatusReader
from swarm.web import answers, series, tasks
from swarm.web.harmless import bounded, cut
from swarm.web.series import Mark
from swarm.wire.messages import ExperimentFile

MOST_NODES = 200
"""Whose standing is told."""
MOST_PARTS = 64
"""Entries of one part of a start, such as its versions."""
BEYOND = 100
"""Rounds by which, and as many again as it has, a node may be beyond the run."""
LATE = 60.0
"""Seconds by which the clocks of others may be ahead of this one."""
FIRST = ("my_reward", "answer_tag_rate", "reward_given_tagged", "earned")
"""Columns that a page begins with."""
FOREMOST = ("learning_rate", "local_groups", "external_groups", "generations", "max_rounds", "tasks")
"""Settings that are told even where they are at their defaults."""


class WebLook:
    """One run; blocking, for one thread at a time."""

    def __init__(
        self,
        run: Run,
        *,
        liveness_timeout: float,
        here: Machine | None = None,
        replication: Callable[[], Replication | None] = lambda: None,
    ) -> None:
        self.run = run
        self.history: History = {}
        self._reader = HistoryReader(run)
        self._status = StatusReader(self._reader, liveness_timeout=liveness_timeout, here=here, replication=replication)
        self._standing: dict[str, Any] = {}

    def refresh(self, wall: float) -> None:
        """Take in what has come since the look before. Raises StoreError: the place fails."""
        read, looked = self._status.read(wall), self._reader.history
        self.history = of_this_run(looked, read.max_rounds)
        status = msgspec.to_builtins(read)
        not_held = {node: of_node.not_held for node, of_node in self.history.items() if of_node.not_held}
        not_held |= {node: len(of_node) for node, of_node in looked.items() if node not in self.history}
        beside = {"not_held": not_held, "elapsed": elapsed(self.history, wall)}
        beside["embedded"] = any_embedded(node.model for node in read.nodes)
        self._standing = standing_document(status | beside, wall)

    def standing(self) -> dict[str, Any]:
        """Returns where the run stands."""
        return self._standing

    def series(self, columns: tuple[str, ...] = FIRST) -> dict[str, Any]:
        """Figures by round of all nodes, and the mark from which news are to be asked for."""
        return series.whole(self.history, columns) | {"mark": series.mark_of(self.history)}

    def news(self, mark: Mark) -> tuple[dict[str, Any], dict[str, tuple[int, int]]]:
        """Returns what has come since a mark, and the next mark."""
        return series.news(self.history, mark), series.mark_of(self.history)

    def tasks(self, node: str = "") -> dict[str, Any]:
        """Returns what was learned of each task."""
        return bounded(tasks.tasks_of(self.history, node))  # type: ignore[no-any-return]

    def matrix(self) -> dict[str, Any]:
        """Returns who learned from whom."""
        return bounded(matrix(self.history))  # type: ignore[no-any-return]

    def stages(self, round_: int) -> dict[str, Any]:
        """Returns who has published in a round: stage -> nodes."""
        nodes = RolloutFiles(self.run, {round_}).counted.nodes
        found = {str(key.stage): self._known_first(nodes[key]) for key in sorted(nodes)[:64] if nodes[key]}
        return {"round": round_, "stages": found, "oldest": oldest_round(self.run)}

    def _known_first(self, nodes: Iterable[str]) -> list[str]:
        """Returns at most as many nodes as are drawn: those with rows before others, which cost who invents them
        nothing."""
        return sorted(nodes, key=lambda node: (node not in self.history, node))[: series.MOST_NODES]

    def answers(self, key: RoundKey, node: str) -> dict[str, Any]:
        """Returns what a node has published in a stage. Raises ProtocolError: it cannot be read, or is nowhere."""
        file = RolloutFiles(self.run, {key.round}).decoded(key, node, LARGEST_FILE)
        if file is None:
            raise ProtocolError(
                "unreadable", f"{node} has no rollouts of round {key.round}, stage {key.stage}, any more"
            )
        return answers.file_document(file, self.history, scaling_of(self.run))

    def made_with(self) -> dict[str, Any]:
        """Returns what the run was started with: by node the settings that are not at their defaults, versions,
        machine."""
        made = experiment_document(known_experiment(self.run))
        starts = [start_document(msgspec.to_builtins(start)) for start in last_starts(self.run)[:MOST_NODES]]
        return bounded({"experiment": made, "starts": starts})  # type: ignore[no-any-return]


def of_this_run(history: History, rounds: int | None) -> History:
    """Leaves out nodes that have rows of rounds far beyond the run: one of them would make a point of all others.

    Args:
        rounds: of the run, by its clock; None: not known, and nobody is left out. Where it was made shorter after it
            had gone further, two nodes know.
    """
    if rounds is None:
        return history
    done = sorted(of_node.rounds_done for of_node in history.values())
    most = BEYOND + 2 * max(rounds, *done[-2:-1], 0)
    return {node: of_node for node, of_node in history.items() if of_node.rounds_done <= most}


def elapsed(history: History, wall: float) -> float | None:
    """Returns seconds from the first sign of the run, the start of the round of its first row, to its last row; None:
    no row.

    Args:
        wall: Unix seconds; rows that claim to be later, or from before there was any clock, say nothing.
    """
    rows = [(node, place) for node in history.values() if len(node) for place in (0, len(node) - 1)]
    ends = [(node.figure("timestamp", place), node.figure("seconds_round", place)) for node, place in rows]
    known = [(end, took) for end, took in ends if 0 < end <= wall + LATE and 0 <= took < end]
    return max(end for end, _ in known) - min(end - took for end, took in known) if known else None


def standing_document(status: dict[str, Any], wall: float) -> dict[str, Any]:
    """Returns the status as `swarm status --json` has it, of at most MOST_NODES nodes."""
    nodes = status["nodes"]
    kept = status | {"nodes": nodes[:MOST_NODES], "nodes_left_out": max(0, len(nodes) - MOST_NODES), "wall": wall}
    return bounded(kept, longest=600)  # type: ignore[no-any-return]


def experiment_document(experiment: ExperimentFile | None) -> dict[str, Any] | None:
    """Makes the document of the experiment's settings; None where they are not known."""
    if experiment is None:
        return None
    identity = {name: _in_short(value) for name, value in experiment.identity.items()}
    return {"created_at": experiment.created_at, "identity": identity, "versions": dict(experiment.versions)}


def start_document(start: dict[str, Any]) -> dict[str, Any]:
    """Returns one node's last start."""
    sources, settings = start.get("sources", {}), start.get("settings", {})
    own = {name: [_in_short(settings.get(name)), source] for name, source in sources.items()}
    kept = ("node_id", "role", "timestamp", "command", "versions", "machine", "models", "code")
    foremost = {name: _in_short(settings[name]) for name in FOREMOST if settings.get(name) is not None}
    return {name: bounded(start.get(name), 600, MOST_PARTS) for name in kept} | {"settings": own, "foremost": foremost}


def _in_short(value: Any) -> str:
    return cut(value if isinstance(value, str) else json.dumps(value), 200)


def why(error: SwarmError) -> str:
    """Returns an error as the page shows it."""
    return printable_lines(cut(str(error), 600))


MOST = 64
"""Nodes on each side."""


def matrix(history: History) -> dict[str, Any]:
    """Returns origins and adopters, and the groups of each pair: `counts[adopter][origin]`.

    `last` has those of the last round. Of too many nodes those that took part in the most are kept, and the groups of
    the others are counted.
    """
    given, taken = Counter[str](), Counter[str]()
    for node, of_node in history.items():
        given.update(of_node.trained_on)
        taken[node] += of_node.trained_on.total()
    trains = [node for node, of_node in history.items() if len(of_node)]
    adopters = sorted(sorted(trains, key=lambda node: (-taken[node], node))[:MOST])
    origins = sorted(sorted({*given, *adopters}, key=lambda node: (-given[node], node))[:MOST])
    total, shown = given.total(), sum(history[a].trained_on[o] for a in adopters for o in origins)
    return {
        "origins": origins,
        "adopters": adopters,
        "counts": [[history[adopter].trained_on[origin] for origin in origins] for adopter in adopters],
        "last": [[history[adopter].last_trained_on.get(origin, 0) for origin in origins] for adopter in adopters],
        "left_out": total - shown,
    }
