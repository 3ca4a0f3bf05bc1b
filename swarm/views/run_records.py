"""Everything that a run left and that the checks of `swarm validate` need more than once."""

from __future__ import annotations

from typing import NamedTuple

from swarm.records.events import Printed, read_printed
from swarm.records.listing import Counted, count_files
from swarm.records.reader import Snapshot, snapshot
from swarm.records.rows import Rows, read_rows
from swarm.store.run import Run
from swarm.wire import keys


class RunRecords(NamedTuple):
    """One run. Rollout and reward files are only counted here; the checks open them one at a time."""

    now: Snapshot
    partial: bool
    """It need not have finished."""
    rollouts: Counted
    rewards: Counted
    rows: dict[str, Rows]
    printed: dict[str, Printed]

    def where(self, key: str) -> str:
        """The key as people find it."""
        return self.now.run.store.describe(key)


def read_records(run: Run, *, partial: bool) -> RunRecords:
    """Read a run."""
    now = snapshot(run)
    return RunRecords(
        now=now,
        partial=partial,
        rollouts=count_files(run.store, keys.ROLLOUTS),
        rewards=count_files(run.store, keys.REWARDS),
        rows={node: read_rows(run, node) for node in now.logged},
        printed={node: read_printed(run, node) for node in now.logged},
    )
