"""Says once in a node's own log what makes it useless although nothing fails (swarm.records.hints)."""

from __future__ import annotations

from collections import deque

from swarm.errors import SwarmError
from swarm.logs import get_logger
from swarm.node.worker.context import WorkerContext
from swarm.records.files import constant_j, read_experiment
from swarm.records.hints import FEW, KEPT, Facts, Recent, hints_of, recent
from swarm.wire.metrics import MetricsRow

logger = get_logger(__name__)


class HintLog:
    """Logs each hint about one node once."""

    def __init__(self, ctx: WorkerContext) -> None:
        self._ctx = ctx
        self._rows: deque[Recent] = deque(maxlen=KEPT)
        self._said: set[str] = set()
        self._facts: Facts | None = None

    async def observe(self, row: MetricsRow) -> None:
        """Take note of a round, and look every few of them."""
        self._rows.append(recent(row))
        if len(self._rows) < FEW or row.round % FEW:
            return
        self._facts = self._facts or Facts(
            generations=self._ctx.settings.generations,
            trains=self._ctx.settings.trains,
            external_groups=await self._ctx.blocking.run(self._external_groups),
            round_interval=self._ctx.settings.round_interval if self._ctx.settings.clock == "coordinator" else 0.0,
        )
        for hint in hints_of(self._ctx.node_id, self._rows, self._facts):
            if hint.code not in self._said:
                self._said.add(hint.code)
                logger.warning("hint", code=hint.code, evidence=hint.evidence, remedy=hint.remedy, page=hint.page)

    def _external_groups(self) -> int:
        """J of the experiment, 0 where it is not fixed, or nobody says. Blocking."""
        try:
            return constant_j(read_experiment(self._ctx.run)) or 0
        except SwarmError:
            return 0
