"""The date of a node's first start, which stays in its prompts where its model's chat template writes one.

The first line of logs/{node}/starts.jsonl says it, where no round was behind that start; else the newest checkpoint's
node.json, which in a bucket is fetched whole for that; else that first line again; else it is today.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime

from swarm.errors import CheckpointError, ProtocolError, StoreError
from swarm.node.base.context import NodeContext
from swarm.node.worker.checkpoints import STATE, own_rounds, read_state
from swarm.records.starts import starts_of
from swarm.wire import keys


def first_day(ctx: NodeContext) -> str:
    """Returns the UTC date of a node's first start, such as 2026-01-31. Blocking."""
    start = None
    with suppress(StoreError):
        start = next(starts_of(ctx.run, ctx.node_id), None)
    if start and not start.rounds_done:
        return _day(start.timestamp)
    with suppress(StoreError, ProtocolError, CheckpointError, OSError):
        if kept := _of_checkpoint(ctx):
            return kept
    return _day(start.timestamp if start else ctx.clock.wall())


def _of_checkpoint(ctx: NodeContext) -> str:
    """Returns the date that the newest checkpoint says; empty where there is none, or it says nothing."""
    store, node = ctx.run.store, ctx.node_id
    for rounds_done in own_rounds(store, node)[-1:]:
        prefix = keys.checkpoint(rounds_done, node)
        with store.open_bundle(prefix) as folder:
            state = read_state(f"{folder}/{STATE}", store.describe(prefix), node, rounds_done)
            return _checked(state.prompt_date or "")
    return ""


def _checked(day: str) -> str:
    """Returns a date, or nothing: whatever else stands in the file is no part of a prompt."""
    with suppress(ValueError):
        return date.fromisoformat(day).isoformat()
    return ""


def _day(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).date().isoformat()
