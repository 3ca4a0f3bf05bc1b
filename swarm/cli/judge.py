"""`swarm judge run`: the judge daemon in the foreground; `python -m services.judge` is the same."""

from __future__ import annotations

import os
from functools import partial

import anyio

from swarm.cli.flags import CommonFlags, open_experiment, settings_from
from swarm.config import JUDGE, Settings
from swarm.errors import SwarmError
from swarm.judge.judge import Judge
from swarm.logs import NodeLog, configure_logging, get_logger
from swarm.node.process.daemon import run_loop
from swarm.node.process.stopping import on_signals
from swarm.node.process.system import ThreadBlocking
from swarm.records.made_by import refuse_foreign
from swarm.store.run import Run
from swarm.systems import require_for
from swarm.tasks.scoring import Scorer
from swarm.wire import keys

logger = get_logger(__name__)


def run(*, common: CommonFlags | None = None) -> int:
    """Ask every node of an experiment one held-out question per round, and record what the answers are worth.

    It may be started before or during the run, and again after a stop; it ends when the experiment does.
    """
    require_for("`swarm judge run`")
    settings = settings_from(common)
    run = open_experiment(settings, JUDGE)
    refuse_foreign(run)
    opened = run.store.open_log
    files = NodeLog(JUDGE, partial(opened, keys.events(JUDGE)), partial(opened, keys.stdout(JUDGE)))
    try:
        with configure_logging([files], level=settings.log_level):
            logger.info(
                "judge.starting", path=str(settings.shared_folder), experiment=settings.experiment, pid=os.getpid()
            )
            return run_loop(_judge, settings, run)
    except SwarmError as error:
        return error.exit_code  # it is in the log, on the terminal and in the folder


async def _judge(settings: Settings, run: Run) -> int:
    async with Scorer(settings.scorer_processes, settings.task_families) as scorer, anyio.create_task_group() as tasks:
        judge = Judge(settings, run, scorer, ThreadBlocking())
        tasks.start_soon(on_signals, judge.stop)
        code = await judge.run()
        tasks.cancel_scope.cancel()
    return code
