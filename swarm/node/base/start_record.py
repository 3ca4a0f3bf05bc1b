"""Records what a node was started with, and says where that is not what it was started with before.

    settings, made_with ─▶ NodeStart ─▶ logs/{node}/starts.jsonl ─▶ `swarm status --started`, `swarm up --from`

A node that cannot write it says so and goes on: the record is for people and for later starts.
"""

from __future__ import annotations

import msgspec

from swarm.errors import StoreError
from swarm.logs import get_logger
from swarm.node.base.context import NodeContext
from swarm.records.starts import changed_settings, last_start
from swarm.wire import keys
from swarm.wire.messages import NodeStart

logger = get_logger(__name__)


async def record_start(ctx: NodeContext, rounds_done: int = 0) -> None:
    """Append this start to the node's record."""
    try:
        changed = await ctx.blocking.run(_record, ctx, rounds_done)
    except StoreError as error:
        logger.warning("start.not_recorded", error=str(error))
        return
    if changed:
        logger.info("settings.changed", since_last_start=changed)


def _record(ctx: NodeContext, rounds_done: int) -> list[str]:
    """Blocking; returns what differs from the start before."""
    start = _start_of(ctx, rounds_done)
    before = last_start(ctx.run, ctx.node_id)
    ctx.run.store.append_records(keys.starts(ctx.node_id), [msgspec.json.encode(start)], durable=True)
    return changed_settings(before, start.settings) if before else []


def _start_of(ctx: NodeContext, rounds_done: int) -> NodeStart:
    return NodeStart(
        timestamp=ctx.clock.wall(),
        node_id=ctx.node_id,
        experiment=ctx.run.experiment,
        role=ctx.settings.role,
        incarnation=ctx.process.incarnation,
        settings=ctx.settings.as_recorded(),
        rounds_done=rounds_done,
        **msgspec.structs.asdict(ctx.made_with()),
    )
