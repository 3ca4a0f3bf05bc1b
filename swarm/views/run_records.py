"""Reads what of a run is checked, while its nodes write on, and what the run was to be.

Each node writes in one order, and what is looked for is read against it:

    nodes write    state of the clock ─▶ rollouts ─▶ row ─▶ reward        logs begin before any of them
    read_records   clock, rows (then) ─▶ rewards ─▶ rollouts, what was cleaned ─▶ clock, rows, events, text (`now`)

So what was said then has its files; every file that was found is explained by `now`, and every reward by a row of it.

    state (max_rounds) ──┐
    its coordinator's log ┴─▶ recorded ─▶ Expected ◀─ asked for on a command line
    starts of a worker (rounds behind it) ─▶ started ─▶ WorkerStarts, of its own rows alone

Only what one who leads the run wrote is taken for its word: anybody may write a log of his own.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from swarm.records.events import Printed, read_printed
from swarm.records.listing import COPIED_TOGETHER, Counted, count_files
from swarm.records.liveness import PERSON
from swarm.records.progress import NodeProgress
from swarm.records.reader import RunReader, RunSnapshot
from swarm.records.retention import LEAST_KEPT
from swarm.records.rollouts import RolloutFiles, read_cleaned
from swarm.records.rows import MetricsRows, read_rows
from swarm.records.starts import starts_of
from swarm.records.table import columns
from swarm.store.run import Run
from swarm.wire import keys
from swarm.wire.messages import CleanedFile


class Expected(NamedTuple):
    """Says what a run must have. None: nobody has said."""

    rounds: int | None = None
    nodes: int | None = None
    """Workers."""
    names: Set[str] = frozenset()
    """Names of workers, as far as they were to be certain ones."""
    external: int | None = None
    """External groups of a round (J)."""


class WorkerStarts(NamedTuple):
    """Holds what a worker's own starts say."""

    rounds_done: int
    """The most that any of them had behind it."""
    person: bool
    """Every time a person."""


def started(now: RunSnapshot) -> dict[str, WorkerStarts]:
    """Returns node -> what its starts say, of those that have a record of one as another one than a coordinator."""
    return {node: found for node in now.logged if (found := _started(now.run, node))}


def _started(run: Run, node: str) -> WorkerStarts | None:
    rounds_done, person = -1, True
    for start in starts_of(run, node):
        if start.role != "coordinator":
            rounds_done, person = max(rounds_done, start.rounds_done), person and start.role == PERSON
    return None if rounds_done < 0 else WorkerStarts(rounds_done, person)


NOTHING_EXPECTED = Expected()
"""Nobody has said anything."""


def recorded(now: RunSnapshot) -> Expected:
    """Returns what the run's own files say that it was to be."""
    leader = now.state.updated_by if now.state else ""
    asked = now.events[leader].expected_workers if leader in now.events else None
    names = frozenset(asked) if isinstance(asked, tuple) else frozenset()
    return Expected(
        rounds=now.rounds_expected,
        nodes=asked if isinstance(asked, int) else len(names) or None,
        names=names if all(map(keys.is_node_id, names)) else frozenset(),  # a worker may be named by its public key
    )


CHECKED = columns(
    *("stage", "node_id", "experiment", "cumulative_reward", "local_groups", "external_wanted", "external_groups"),
    *("bytes_published", "role"),
)
"""Columns of a row that a run is checked by."""


class RunRecords(NamedTuple):
    """One run. Rollout and reward files are only counted here; the checks open them one at a time."""

    rounds_before: int
    """Rounds that were done before they were counted."""
    newest_row: dict[str, int]
    """Node -> round of the last row that it had then."""
    started: dict[str, WorkerStarts]
    """Worker -> its starts by then."""
    now: RunSnapshot
    """After they were counted."""
    partial: bool
    """It need not have finished."""
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

    @property
    def cleaned_before(self) -> int:
        """Rollouts of rounds before this one may be gone, as who cleaned up has said; never those of the last ones."""
        said = self.cleaned.rollouts_before if self.cleaned else 0
        return min(said, self.rounds_before - LEAST_KEPT + 1)

    def where(self, key: str) -> str:
        """Returns the key as people find it."""
        return self.now.run.store.describe(key)


def read_records(run: Run, *, partial: bool, expected: Expected = NOTHING_EXPECTED) -> RunRecords:
    """Read a run."""
    reader = RunReader(run, begin=lambda node: NodeProgress())
    then = reader.refresh()
    rounds_before, begun = then.rounds_done, started(then)
    newest_row = {node: rows.last.round for node, rows in then.progress.items() if rows.last}
    rewards, published = count_files(run.store, keys.REWARDS), RolloutFiles(run)
    rollouts, cleaned = published.counted, read_cleaned(run)
    now = reader.refresh()
    return RunRecords(
        rounds_before=rounds_before,
        newest_row=newest_row,
        started=begun,
        now=now,
        partial=partial,
        expected=expected,
        rollouts=rollouts,
        published=published,
        cleaned=cleaned,
        rewards=rewards,
        rows={node: read_rows(run, node, CHECKED) for node in now.logged},
        printed={node: read_printed(run, node) for node in now.logged},
    )


def rounds_begun(run: RunRecords) -> int:
    """Returns rounds of which there may be files. One who goes on alone opens the round after that of its last row; a
    copy that broke off may be further with rollouts than with rows."""
    if not run.partial:
        return run.now.rounds_done
    done = max([run.now.rounds_done, *(progress.rounds_done for progress in run.now.progress.values())])
    return done + COPIED_TOGETHER
