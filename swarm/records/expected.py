"""Says what a run was to be: rounds, workers, external groups; as somebody asks, or as the run itself has it written
down.

    state (max_rounds) ──┐
    its coordinator's log ├─▶ recorded ─▶ Expected ◀─ asked for on a command line
    experiment.json (J) ──┘
    starts of a worker (rounds behind it, J) ─▶ started ─▶ WorkerStarts, of its own rows alone

Only what one who leads the run wrote is taken for its word: anybody may write a log of his own.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from swarm.records.files import constant_j
from swarm.records.liveness import PERSON
from swarm.records.reader import RunSnapshot
from swarm.records.starts import starts_of
from swarm.store.run import Run
from swarm.wire import keys

MOST_STARTS = 1_000
"""Different ones of a node that are held."""


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
    external: frozenset[tuple[int, int]] | None
    """Rounds behind a start, and J from there on; None where a rule moved it, or it is not said soundly."""
    person: bool = False
    """Every time a person."""

    def external_in(self, round_: int) -> set[int]:
        """Returns the values of J that a round may have wanted, which a later start may have done again; empty: nobody
        says."""
        return {external for done, external in self.external or () if done <= round_}


def started(now: RunSnapshot) -> dict[str, WorkerStarts]:
    """Returns node -> what its starts say, of those that have a record of one as another one than a coordinator."""
    return {node: found for node in now.logged if (found := _started(now.run, node))}


def _started(run: Run, node: str) -> WorkerStarts | None:
    rounds_done, external, sound, person = None, set[tuple[int, int]](), True, True
    for start in starts_of(run, node):
        if start.role == "coordinator":
            continue
        person = person and start.role == PERSON
        rounds_done = max(rounds_done or 0, start.rounds_done)
        asked = start.settings.get("external_groups")
        if type(asked) is int and asked >= 0 and start.settings.get("adaptive") is False and sound:
            external.add((start.rounds_done, asked))
            sound = len(external) <= MOST_STARTS
        else:
            sound = False
    asked_for = frozenset(external) if sound else None
    return None if rounds_done is None else WorkerStarts(rounds_done, asked_for, person)


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
        external=constant_j(now.experiment),
    )
