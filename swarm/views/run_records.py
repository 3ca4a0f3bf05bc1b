"""Reads what of a run is checked, while its nodes write on.

Each node writes in one order, and what is looked for is read against it:

    nodes write    state of the clock ─▶ rollouts ─▶ row ─▶ reward        logs begin before any of them
    read_records   clock, rows (`before`) ─▶ rewards ─▶ rollouts, what was cleaned ─▶ clock, rows, events, text (`now`)

So what `before` says has its files; every file that was found is explained by `now`, and every reward by a row of it.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from swarm.records.events import Printed, read_printed
from swarm.records.expected import NOTHING_EXPECTED, Expected, WorkerStarts, started
from swarm.records.listing import Counted, count_files
from swarm.records.reader import RunReader, RunSnapshot
from swarm.records.retention import LEAST_KEPT
from swarm.records.rollouts import RolloutFiles, read_cleaned
from swarm.records.rows import MetricsRows, read_columns
from swarm.records.table import columns
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.messages import CleanedFile

CHECKED = columns(
    *("stage", "node_id", "experiment", "cumulative_reward", "local_groups", "external_wanted", "external_groups"),
    *("external_by_peer", "accepted_by_peer", "bytes_published", "role"),
)
"""Columns of a row that a run is checked by."""


class Before(NamedTuple):
    """Says how far a run was before its files were counted."""

    rounds_done: int
    newest_row: dict[str, int]
    """Node -> round of the last row that it had."""
    started: dict[str, WorkerStarts]
    """Worker -> its starts."""


class RunRecords(NamedTuple):
    """One run. Rollout and reward files are only counted here; the checks open them one at a time."""

    before: Before
    now: RunSnapshot
    """After they were counted."""
    partial: bool
    """It need not have finished."""
    only: Set[str]
    """The nodes whose records are checked; empty: all, and that nothing else lies there."""
    expected: Expected
    """What somebody asks for."""
    rollouts: Counted
    """Where nodes publish them, and in the archive."""
    published: RolloutFiles
    cleaned: CleanedFile | None
    """What is not where it was published any more."""
    rewards: Counted
    rows: dict[str, MetricsRows]
    printed: dict[str, Printed]
    started: dict[str, WorkerStarts]
    """Worker -> its starts, those before each of its rows among them."""

    @property
    def cleaned_before(self) -> int:
        """Rollouts of rounds before this one may be gone, as who cleaned up has said; never those of the last ones."""
        said = self.cleaned.rollouts_before if self.cleaned else 0
        return min(said, self.before.rounds_done - LEAST_KEPT + 1)

    def where(self, key: str) -> str:
        """Returns the key as people find it."""
        return self.now.run.store.describe(key)


def read_records(
    run: Run, *, partial: bool, only: Set[str] = frozenset(), expected: Expected = NOTHING_EXPECTED
) -> RunRecords:
    """Read a run, or what `only` some of its nodes have put there in the rounds that it had."""
    reader = RunReader(run, only)
    before = _before(reader.refresh())
    rewards, published = count_files(run.store, keys.REWARDS), RolloutFiles(run)
    rollouts, cleaned = published.counted, read_cleaned(run)
    now = reader.refresh()
    found = RunRecords(
        before=before,
        now=now,
        partial=partial,
        only=only,
        expected=expected,
        rollouts=rollouts,
        published=published,
        cleaned=cleaned,
        rewards=rewards,
        rows={node: read_columns(run, node, CHECKED) for node in now.logged},
        printed={node: read_printed(run, node) for node in now.logged},
        started=started(now),
    )
    if not only:
        return found
    rounds = rounds_begun(found)
    return found._replace(rewards=rewards.of(only, rounds), rollouts=rollouts.of(only, rounds))


def _before(now: RunSnapshot) -> Before:
    newest_row = {node: p.last.round for node, p in now.progress.items() if p.last}
    return Before(now.rounds_done, newest_row, started(now))


def rounds_begun(run: RunRecords) -> int:
    """Returns rounds of which there may be files. One who goes on alone opens the round after that of its last row."""
    if not run.partial:
        return run.now.rounds_done
    return max([run.now.rounds_done, *(progress.rounds_done for progress in run.now.progress.values())]) + 1
