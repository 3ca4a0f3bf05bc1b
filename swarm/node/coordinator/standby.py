"""Standby: waits until no other coordinator is alive, or the experiment is finished."""

from __future__ import annotations

from swarm.errors import StoreError
from swarm.logs import get_logger
from swarm.node.base.clock_file import believed_state
from swarm.node.base.context import NodeContext
from swarm.node.base.log_once import LogOnce
from swarm.records.files import read_peers
from swarm.records.liveness import ACTIVE, STARTING, Liveness

logger = get_logger(__name__)


async def clock_is_vacant(ctx: NodeContext, liveness: Liveness) -> bool:
    """Wait until nobody keeps the clock, for at least one liveness timeout: a beat may not have been seen to move yet.

    Returns:
        True if no other coordinator is alive; False if the experiment is finished.
    """
    clock = ctx.clock
    since, unlistable = clock.monotonic(), LogOnce("folder.unlistable", over="folder.listable")
    logger.info("coordinator.stands_by", experiment=ctx.run.experiment)
    while True:
        try:
            state, _ = await ctx.blocking.run(believed_state, ctx.run)
            if state is not None and state.finished:
                return False
            peers = await ctx.blocking.run(read_peers, ctx.run)
        except StoreError as error:
            unlistable.found(error)
            since = clock.monotonic()  # who is blind sees nobody; that says nothing
        else:
            unlistable.gone()
            for peer in peers:
                liveness.observe(peer, clock.monotonic(), clock.wall())
        now = clock.monotonic()
        others = liveness.live(now, role="coordinator", statuses=(STARTING, ACTIVE)) - {ctx.node_id}
        if not others and now - since >= ctx.settings.liveness_timeout:
            return True
        await clock.sleep(ctx.settings.heartbeat_interval)
