"""Watches the runs of a study, passes signals on, and says what came of them."""

from __future__ import annotations

import shlex
import time
from collections import deque
from pathlib import Path

import anyio

from swarm.cli.elsewhere import Elsewhere
from swarm.cli.experiment import live_nodes
from swarm.cli.progress import Surviving
from swarm.cli.say import say
from swarm.node.process.system import on_signals
from swarm.plugins.study.cli.study_view import StudyDisplay, results
from swarm.plugins.study.record import StudyRecord, run_log, study_store
from swarm.plugins.study.run.launch import JUDGE_PART, Launcher
from swarm.plugins.study.run.runner import Runner, StudyView
from swarm.plugins.study.run.schedule import RunState
from swarm.records.growing import GrowingLines
from swarm.store.base import Store
from swarm.store.run import Run
from swarm.views.text import shorten

STOPPING = "stopping: every swarm finishes its step and saves; once more ends them at once"
LEAVING = "leaving: the jobs go on"
LAST_LINES = 5
"""Lines of the log of a run that failed."""
MOST_READS = 128
"""Reads of such a log, 8 MiB each."""
LONGEST_LINE = 1000
"""Characters that are shown of each."""


async def watched(
    launcher: Launcher,
    jobs: int,
    liveness_timeout: float,
    stays: bool = False,
) -> tuple[StudyView, int]:
    """Run all runs of a record, shown on the terminal.

    Args:
        stays: its runs go on without this process.

    Returns:
        How they are in the end, and the exit code of who was asked to stop, else 0.
    """

    def is_live(run: Run) -> bool:
        return bool(live_nodes(run, time.time(), liveness_timeout))

    runner = Runner(launcher, jobs, is_live=is_live, monotonic=time.monotonic, wall=time.time)
    display, surviving = StudyDisplay(time.monotonic), Surviving()
    exit_code = 0
    async with anyio.create_task_group() as tasks:

        def stop(code: int) -> None:
            nonlocal exit_code
            exit_code = code
            say(LEAVING if stays else STOPPING)
            runner.stop()

        def show(view: StudyView) -> None:
            with surviving.view("the study's display"):
                display.show(view)

        tasks.start_soon(on_signals, stop, runner.insist)
        view = await runner.run(show)
        tasks.cancel_scope.cancel()
    return view, exit_code


def run_all(launcher: Launcher, jobs: int, liveness_timeout: float, again: str, slurm: Elsewhere | None = None) -> int:
    """Run a study to its end, and say what came of it. Returns the exit code."""
    record = launcher.record
    say(f"{record.title}: {len(record.runs)} runs of {record.rounds} rounds, {jobs} at a time")
    view, exit_code = anyio.run(watched, launcher, jobs, liveness_timeout, slurm is not None)
    code = _conclude(view, launcher.path, again, exit_code)
    if slurm and exit_code:
        say(slurm.how_to_follow(_jobs_of(view, launcher.path, slurm), again))
    return code


def parts(record: StudyRecord) -> tuple[str, ...]:
    """Returns the parts of a run that are programs of their own: its swarm, and its judge."""
    return ("", JUDGE_PART) if record.judged else ("",)


def _jobs_of(view: StudyView, folder: Path, slurm: Elsewhere) -> list[str]:
    """Returns the ids of the jobs that wait or run."""
    found = [(run.run.experiment, part) for run in view.runs for part in parts(view.record)]
    return [job.id for name, part in found if (job := slurm.found(str(folder), name, part))]


def _conclude(view: StudyView, folder: Path, again: str, exit_code: int) -> int:
    say(results(view))
    if len(view.those(RunState.FINISHED)) == len(view.runs):
        exit_code = 0  # it was asked to stop when there was nothing left to do
    failed = say_failed(view, folder)
    if exit_code or failed:
        say(f"{'go on' if exit_code else 'try them again'}: {again}")
    else:
        say(f"all of it: swarm study report {view.record.study} --path {shlex.quote(str(folder))}")
    return exit_code or (1 if failed else 0)


def say_failed(view: StudyView, folder: Path) -> int:
    """Returns the end of what each run said that failed. Returns how many they are."""
    failed = view.those(RunState.FAILED)
    for one in failed:
        store, log = study_store(folder, view.record.study), run_log(one.run.experiment)
        say(f"\n{one.run.experiment} failed: {one.problem}; the end of {store.describe(log)}:")
        for line in _last_lines(store, log):
            say(f"  {line}")
    return len(failed)


def _last_lines(store: Store, log: str) -> list[str]:
    """Returns the end of a run's log; nothing of what is no file."""
    lines = (line for part in GrowingLines(store, log).look(MOST_READS) for line in part.records)
    return [shorten(line.decode("utf-8", "replace"), LONGEST_LINE) for line in deque(lines, LAST_LINES)]
