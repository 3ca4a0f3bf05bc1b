"""A worker as a process of its own, whose policy and questions need no torch and no reasoning-gym.

    NODE_ID=a GDRIVE_PATH=... python -m tests.chaos.light_worker

It starts in a fraction of a second, so that a campaign of kills spends its time on kills. All else is the real thing.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from swarm.config import load_settings
from swarm.errors import SwarmError
from swarm.logs import configure_logging
from swarm.node.base.context import NodeContext
from swarm.node.process.daemon import run_loop
from swarm.node.process.system import ComputeExecutor, compute_thread, run_until_signal
from swarm.node.process.wiring import make_context, node_log
from swarm.node.worker.worker import Worker
from swarm.types import Completion, Dialogue, Ready, TrainGroup, TrainReport
from tests.unit.node.factories import UNIVERSE, FakePolicy, FakeTaskSource

STEP = 0.02
"""Mean seconds of a step of the policy: there has to be a moment to be killed in."""
FIXED_STEP = "LIGHT_STEP"
"""Variable: seconds of every step, in which the processor is free, as while a GPU computes."""


@dataclass
class LightPolicy(FakePolicy):
    """Its weights are a digest of all that it was trained on; steps take a moment."""

    step: float = STEP

    def generate(
        self, prompts: Sequence[str | Dialogue], *, group_size: int, seed: int, ready: Ready | None = None
    ) -> list[tuple[Completion, ...]]:
        def unhurried(slot: int, completions: tuple[Completion, ...]) -> None:
            assert ready
            ready(slot, completions)
            self._pause()

        self._pause()
        told = unhurried if ready else None
        return super().generate(prompts, group_size=group_size, seed=seed, ready=told)

    def finish_update(self, groups: Sequence[TrainGroup]) -> TrainReport:
        self._pause()
        report = super().finish_update(groups)
        self.trained.clear()
        return report

    def _pause(self) -> None:
        if fixed := os.environ.get(FIXED_STEP):
            time.sleep(float(fixed))
        elif self.step:
            time.sleep(random.expovariate(1 / self.step))


def main() -> int:
    """Live until the experiment is over; the exit code."""
    settings = load_settings({}, os.environ)
    ctx = make_context(settings, settings.node_id or "light")
    with configure_logging([node_log(ctx)], level=settings.log_level):
        try:
            return run_loop(_live, ctx)
        except SwarmError as error:
            return error.exit_code


async def _live(ctx: NodeContext) -> int:
    with compute_thread() as thread:
        executor = ComputeExecutor(ctx.clock.monotonic, thread)
        worker = Worker(ctx, universe=UNIVERSE, load_policy=LightPolicy, task_source=FakeTaskSource(), compute=executor)
        return await run_until_signal(worker)


if __name__ == "__main__":
    raise SystemExit(main())
