"""trackio: its database on this machine, in TRACKIO_DIR or where it keeps it otherwise; `trackio show` shows it.

Rows go into the database by its storage layer, not by `trackio.init`, which starts a server: each with an id, by which
the database itself refuses one that it has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime

from trackio.sqlite_storage import SQLiteStorage

from swarm.plugins.sinks.base import BEFORE_ALL, SinkRun
from swarm.types import RoundKey

Row = tuple[RoundKey, float, dict[str, float]]


class TrackioSink:
    """A project for each experiment, in it a run for each node of each beginning."""

    def __init__(self, of: SinkRun) -> None:
        self._of = of
        self._project = _project(of.experiment)
        self._waiting: dict[str, list[Row]] = defaultdict(list)

    def written(self, node: str) -> RoundKey:
        last = SQLiteStorage.get_max_step_for_run(self._project, run_id=self._id(node))
        return BEFORE_ALL if last is None else self._of.key(last)

    def _id(self, node: str) -> str:
        return f"{self._of.name}/{node}"

    def row(self, node: str, key: RoundKey, at: float, values: Mapping[str, float]) -> None:
        self._waiting[node].append((key, at, dict(values)))

    def flush(self) -> None:
        """One transaction for each node."""
        while self._waiting:
            node, rows = next(iter(self._waiting.items()))
            SQLiteStorage.bulk_log(
                self._project,
                f"{node}{self._of.name.removeprefix(self._of.experiment)}",
                [values for _, _, values in rows],
                steps=[self._of.step(key) for key, _, _ in rows],
                timestamps=[datetime.fromtimestamp(at, UTC).isoformat() for _, at, _ in rows],
                log_ids=[f"{self._id(node)}/{key.round}/{key.stage}" for key, _, _ in rows],
                run_id=self._id(node),
                config=dict(self._of.config) or None,
            )
            del self._waiting[node]

    def close(self) -> None:
        self.flush()


def _project(experiment: str) -> str:
    """Returns the experiment's name, or one around it where trackio keeps that for itself."""
    try:
        SQLiteStorage.validate_project_name(experiment)
    except ValueError:
        return f"swarm-{experiment}-run"
    return experiment
