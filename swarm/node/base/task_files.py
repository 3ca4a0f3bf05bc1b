"""The files that a run's own tasks are asked from, put into its place before the experiment is."""

from __future__ import annotations

from swarm.logs import get_logger
from swarm.node.base.context import NodeContext
from swarm.records.task_files import MOST_BYTES, publish

logger = get_logger(__name__)


def publish_task_files(ctx: NodeContext) -> None:
    """Publishes the task files of this node's settings that are not there yet. Blocking; raises StoreError."""
    if alone := publish(ctx.run.store, ctx.settings.task_table or {}):
        logger.warning(
            "tasks.not_published", tasks=alone, most_bytes=MOST_BYTES, consequence="who joins needs their files"
        )
