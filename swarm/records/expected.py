"""What a run was to be: rounds, workers, external groups; as somebody asks, or as the run itself has it written down.

    state (max_rounds) ──┐
    its coordinator's log ├─▶ recorded ─▶ Expected ◀─ asked for on a command line
    experiment.json (J) ──┘

Only what one who leads the run wrote is taken for its word: anybody may write a log of his own.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from swarm.records.files import constant_j
from swarm.records.reader import Snapshot
from swarm.wire import keys


class Expected(NamedTuple):
    """What must be there. None: nobody has said."""

    rounds: int | None = None
    nodes: int | None = None
    """Workers."""
    names: Set[str] = frozenset()
    """Of workers, as far as they were to be certain ones."""
    external: int | None = None
    """External groups of a round (J)."""


NOTHING = Expected()
"""Nobody has said anything."""


def recorded(now: Snapshot) -> Expected:
    """What the run's own files say that it was to be."""
    leader = now.state.updated_by if now.state else ""
    asked = now.events[leader].expected_workers if leader in now.events else None
    names = frozenset(asked) if isinstance(asked, tuple) else frozenset()
    return Expected(
        rounds=now.rounds_expected,
        nodes=asked if isinstance(asked, int) else len(names) or None,
        names=names if all(map(keys.is_node_id, names)) else frozenset(),  # a worker may be named by its public key
        external=constant_j(now.experiment),
    )
