"""Which updates a node makes once more after its death: the real rule, asked with light rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec

from swarm.config import Settings
from swarm.node.worker.redo import plan_redo
from swarm.wire.messages import MetricsRow, NodeState
from tests.simulation.folder import Checkpoint, Row

_GOLDEN = Path(__file__).parents[1] / "golden" / "metrics.jsonl"


@cache
def _usual() -> tuple[Settings, MetricsRow]:
    return Settings(), msgspec.json.decode(_GOLDEN.read_bytes().splitlines()[0], type=MetricsRow)


def rounds_to_redo(rows: Sequence[Row], checkpoint: Checkpoint | None) -> list[int]:
    """The rounds whose updates are in the rows, and not in the checkpoint."""
    settings, row = _usual()
    told = [
        msgspec.structs.replace(
            row, round=r.key.round, stage=r.key.stage, trained_on=list(r.trained_on), external_groups=len(r.trained_on)
        )
        for r in rows
    ]
    state = checkpoint and NodeState(
        node_id=row.node_id,
        rounds_done=checkpoint.rounds_done,
        rounds_trained=len(checkpoint.weights),
        seed=settings.seed,
        cumulative_reward=0.0,
        model="",
    )
    return [redone.row.round for redone in plan_redo(told, state, settings).rounds]
