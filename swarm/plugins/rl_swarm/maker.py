"""Knows runs that rl-swarm made, and opens them; a Maker as `swarm.records.made_by` asks for them.

progress_{node}.json at the top, or a clock with a round and no version: rl-swarm.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from swarm.plugins.rl_swarm.run import PROGRESS
from swarm.plugins.rl_swarm.store import RlSwarmStore
from swarm.records.growing import parse_line
from swarm.store.base import Store
from swarm.wire import keys

_OURS = {"schema_version", "experiment_name", "updated_by"}
"""rl-swarm's first clock has a name, its later ones a writer, none a version."""


def made(top: Collection[str], clock: bytes | None) -> bool:
    """Returns whether rl-swarm made a run without experiment.json.

    Args:
        top: the names at the top of its folder.
        clock: its state/current_state.json; None: there is none that can be read.
    """
    if any(name.startswith(PROGRESS) and keys.node_of(name.removeprefix(PROGRESS)) for name in top):
        return True
    said = parse_line(clock, dict[str, Any]) if clock is not None else None
    return said is not None and {"round", "stage"} <= said.keys() and not said.keys() >= _OURS


def adapted(store: Store, experiment: str) -> RlSwarmStore:
    """Returns the run as a store of our keys and forms, to read and nothing else."""
    return RlSwarmStore(store, experiment)
