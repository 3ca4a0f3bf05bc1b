"""`swarm judge run`: the judge daemon in the foreground; `python -P -m services.judge` is the same."""

from __future__ import annotations

import os
import time
from functools import partial

import anyio

from swarm.cli.flags import CommonFlags, open_experiment, settings_from
from swarm.cli.joining import experiment_in, with_tasks_of
from swarm.cli.say import warn
from swarm.config import JUDGE, Settings
from swarm.errors import ExperimentError, StoreError, SwarmError
from swarm.judge.judge import Judge
from swarm.logs import NodeLog, configure_logging, get_logger
from swarm.node.process.daemon import run_loop
from swarm.node.process.stopping import on_signals
from swarm.node.process.system import ThreadBlocking
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.systems import require_for
from swarm.tasks.registry import NO_TASKS
from swarm.tasks.scoring import Scorer
from swarm.wire import keys

logger = get_logger(__name__)

POLL_SECONDS = 0.5
"""Between two looks for an experiment that is not there yet."""


def run(*, experiment_flags: CommonFlags | None = None) -> int:
    """Ask every node of an experiment one held-out question per round, and record what the answers are worth.

    It may be started before or during the run, and again after a stop; it ends when the experiment does. Before there
    is such an experiment it waits, and says so.
    """
    require_for("`swarm judge run`")
    settings = settings_from(experiment_flags)
    _await_experiment(settings)
    run = open_experiment(settings, JUDGE)
    opened = run.store.open_log
    if experiment := experiment_in(run, None):
        settings = with_tasks_of(run, experiment, settings)
    files = NodeLog(JUDGE, partial(opened, keys.events(JUDGE)), partial(opened, keys.stdout(JUDGE)))
    try:
        with configure_logging([files], level=settings.log_level):
            logger.info("judge.starting", path=settings.place, experiment=settings.experiment, pid=os.getpid())
            return run_loop(_judge, settings, run)
    except SwarmError as error:
        return error.exit_code  # it is in the log, on the terminal and in the folder


def _await_experiment(settings: Settings) -> None:
    """Return once the experiment is there: a judge makes none, whose name may be a slip."""
    said = ""
    while True:
        try:
            open_place(settings.place).require(settings.experiment)
            return
        except (ExperimentError, StoreError) as error:
            if str(error) != said:
                said = str(error)
                warn(f"waiting for it: {said}; Ctrl-C ends the wait")
        time.sleep(POLL_SECONDS)


async def _judge(settings: Settings, run: Run) -> int:
    own = settings.task_table or NO_TASKS
    async with (
        Scorer(settings.scorer_processes, settings.task_families, own) as scorer,
        anyio.create_task_group() as tasks,
    ):
        judge = Judge(settings, run, scorer, ThreadBlocking())
        tasks.start_soon(on_signals, judge.stop)
        code = await judge.run()
        tasks.cancel_scope.cancel()
    return code
