"""Are a node's last weights those that its rows tell? All its rounds are done once more, from the first model on.

If a killed node lost an update, made one twice, or trained on other groups than its row names, the weights differ.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from swarm.config import Settings
from swarm.node.base.write_queue import WriteQueue
from swarm.node.process.system import ComputeExecutor, compute_thread
from swarm.node.process.wiring import make_context
from swarm.node.sharing.admission import questions_of
from swarm.node.sharing.contexts import Contexts
from swarm.node.sharing.verification import TaskSource
from swarm.node.worker.context import WorkerContext
from swarm.node.worker.features import plugin_hooks_of
from swarm.node.worker.hooks import Hooks
from swarm.node.worker.own_groups import OwnGroups
from swarm.node.worker.round_files import RoundFiles
from swarm.node.worker.starting import Redo, plan_redo
from swarm.records.rows import read_rows
from swarm.tasks.universe import Universe
from swarm.types import Policy
from tests.layout import Layout

WEIGHTS = ("model/model.safetensors", "weights.txt")
"""Where a policy's snapshot keeps them: a real one, a light one."""


async def replay(
    settings: Settings,
    layout: Layout,
    node: str,
    load_policy: Callable[[], Policy],
    source: TaskSource,
    universe: Universe,
) -> str | None:
    """What is wrong with the weights of a node's last checkpoint, None if nothing is."""
    rows = read_rows(layout.run, node).rows
    settings = replace(settings, redo_rounds=10**6)
    with compute_thread() as thread:
        executor = ComputeExecutor(time.monotonic, thread)
        policy = await executor.run(load_policy)
        plugins = plugin_hooks_of(make_context(settings, node))
        ctx = replace(_context(settings, node, universe, source, executor), before_publishing=plugins.before_publishing)
        hooks = plugins.rounds(ctx, policy, policy)
        plan = plan_redo(rows, None, settings, hooks.redone)
        rounds = _Rounds(OwnGroups(ctx, policy, RoundFiles(ctx)), hooks)
        redone = await Redo(ctx, policy, cast(Any, rounds)).carry_out(plan)
        if (redone.rounds, redone.lost) != (len(rows), 0):
            return f"{redone.rounds} of {node}'s {len(rows)} rounds could be done once more"
        with tempfile.TemporaryDirectory() as name:
            (await executor.run(policy.snapshot)).write(name)
            return _difference(Path(name), layout.checkpoint(rows[-1].round + 1, node))


def _context(
    settings: Settings, node: str, universe: Universe, source: TaskSource, executor: ComputeExecutor
) -> WorkerContext:
    ctx, assigned = make_context(settings, node), questions_of(settings, universe)
    contexts = Contexts(ctx, assigned, source) if settings.max_stages > 1 else None
    return WorkerContext(
        **vars(ctx),
        compute=executor,
        assigned=assigned,
        task_source=contexts.source if contexts else source,
        contexts=contexts,
        writes=WriteQueue(ctx),
    )


def _difference(replayed: Path, kept: Path) -> str | None:
    for name in WEIGHTS:
        if (replayed / name).exists() and (replayed / name).read_bytes() != (kept / name).read_bytes():
            return f"{kept / name} does not hold the weights that the rows give"
    return None


@dataclass
class _Rounds:
    """What Redo wants of a node's rounds. Held-out questions are not asked once more: they leave the weights alone."""

    own_groups: OwnGroups
    hooks: Hooks
    rounds_trained: int = 0
