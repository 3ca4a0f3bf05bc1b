"""`swarm study run`: a matrix of swarms in one command.

matrix, flags, environment ─resolve─▶ StudyRecord ─▶ study.json ─▶ Runner ─▶ terminal, table, how to go on
"""

from __future__ import annotations

import os
import shlex
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import anyio
import msgspec
from cyclopts import Parameter

from swarm.cli.before_start import make_ready
from swarm.cli.experiment import live_nodes
from swarm.cli.flags import command_again, flag_words
from swarm.cli.say import say
from swarm.cli.slurm_flags import SlurmFlags, describe_jobs, how_to_follow, slurm_of
from swarm.cli.study_view import StudyDisplay, results
from swarm.cli.suiting import say_chosen
from swarm.cli.surviving import Surviving
from swarm.config import Settings, sources_of, variable
from swarm.errors import ConfigError, MemoryPlanError
from swarm.node.process.stopping import on_signals
from swarm.planner.plan import RESERVE, Plan
from swarm.planner.planner import plan_for
from swarm.provenance import cores, versions
from swarm.records.growing import Growing
from swarm.records.reader import RunReader
from swarm.slurm.backend import SlurmBackend
from swarm.store.base import Store
from swarm.store.run import Run
from swarm.study.record import StudyRecord, open_run, read_study, run_log, studies, study_store, write_study
from swarm.study.run.builtin import built_in
from swarm.study.run.defaults import as_begun
from swarm.study.run.growth import grown
from swarm.study.run.launch import JUDGE_PART, Launcher, LocalBackend
from swarm.study.run.matrix import Matrix, changed_settings, ignored_settings, resolve, run_settings, shared_settings
from swarm.study.run.matrix_file import read_matrix
from swarm.study.run.reuse import with_finished_elsewhere
from swarm.study.run.run_folder import read_progress
from swarm.study.run.runner import Runner, StudyView, alone
from swarm.study.run.schedule import RunState
from swarm.study.run.suited import PROFILE, models_of, suited
from swarm.systems import require_for
from swarm.tasks.universe import check_tasks
from swarm.views.text import shorten

STOPPING = "stopping: every swarm finishes its step and saves; once more ends them at once"
LEAVING = "leaving: the jobs go on"
LAST_LINES = 5
"""Of the log of a run that failed."""
MOST_READS = 128
"""Of such a log, 8 MiB each."""
LONGEST_LINE = 1000
"""Characters that are shown of each."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class StudyFlags:
    """What a study runs, on top of its matrix."""

    name: Annotated[str | None, Parameter(help="Name of the study; the matrix's if not given.")] = None
    path: Annotated[str | None, Parameter(help="The shared folder.")] = None
    config: Annotated[str | None, Parameter(help="TOML file of settings for all runs.")] = None
    rounds: Annotated[int | None, Parameter(help="Rounds of each run.")] = None
    nodes: Annotated[int | None, Parameter(help="Workers of each swarm.")] = None
    seeds: Annotated[str | None, Parameter(help="Seeds separated by commas, or how many: 5 is 1,2,3,4,5.")] = None
    model: Annotated[str | None, Parameter(help="Embedded name, local path or Hugging Face id.")] = None
    learning_rate: Annotated[float | None, Parameter(help="Step size of Adam.")] = None
    jobs: Annotated[int | None, Parameter(help="Swarms at a time; one per core if not given, all with --on slurm.")] = (
        None
    )
    judge: Annotated[bool | None, Parameter(help="A judge asks every node a held-out question each round.")] = None


def run(
    matrix: Annotated[str, Parameter(help="sapo, five-node, adaptive, samplers, or a TOML file of one's own.")],
    /,
    *,
    dry_run: Annotated[bool, Parameter(help="Say what would be run, and start nothing.")] = False,
    cluster: SlurmFlags | None = None,
    flags: StudyFlags | None = None,
) -> int:
    """Run a study, or go on with it: what is finished is skipped.

    Ctrl-C once: the swarms finish their step and save, exit 130; twice: end at once. The same command goes on. With
    --on slurm each swarm is a job, Ctrl-C leaves them running, and the same command follows them again.
    """
    require_for("`swarm study run`")
    flags = flags or StudyFlags()
    slurm = slurm_of(cluster or SlurmFlags())
    if flags.jobs is not None and flags.jobs < 1:
        raise ConfigError(f"--jobs must be at least 1, got {flags.jobs}")
    chosen = _overridden(_matrix(matrix), flags)
    given = {"path": flags.path, "model": flags.model, "learning_rate": flags.learning_rate}
    chosen, shared = _as_begun_or_suited(chosen, given, flags.config)
    folder = shared.shared_folder
    for name in ignored_settings(shared):
        say(f"{variable(name)} is left out: a study decides it for each run")
    again = command_again(["swarm", "study", "run", matrix, *flag_words(cluster)], flags)
    asked = resolve(chosen, shared, judged=bool(flags.judge), created_at=time.time(), versions=versions(shared))
    _check(asked, folder, shared.hub_token, here=slurm is None)
    asked = msgspec.structs.replace(asked, command=again)
    if dry_run:
        _show_dry_run(_whole(folder, asked), folder, slurm)
        return 0
    with alone(folder, chosen.name):
        record = _whole(folder, asked)
        write_study(folder, record)
        jobs = flags.jobs or len(record.runs) if slurm else _places(record, folder, flags.jobs, shared.hub_token)
        launcher = Launcher(record, folder, os.environ, versions(shared), slurm or LocalBackend())
        return anyio.run(_run, launcher, jobs, shared.liveness_timeout, again, slurm)


def _as_begun_or_suited(matrix: Matrix, given: Mapping[str, Any], config: str | None) -> tuple[Matrix, Settings]:
    """A new study with what suits its models; one that is there with what it was begun with, which is said."""
    named = sources_of(given, os.environ, config)

    def load(one: Matrix) -> Settings:
        return shared_settings(one, given, os.environ, config)

    new = suited(matrix, load(matrix), named)
    shared = load(new)
    if matrix.name not in studies(shared.shared_folder):
        if new.settings.get(PROFILE) != matrix.settings.get(PROFILE):
            say_chosen(models_of(new, shared))
        return new, shared
    there = read_study(shared.shared_folder, matrix.name)
    begun = as_begun(matrix, there)
    begun = suited(begun, load(begun), named, there)
    _say_what_stays(matrix.name, load(begun), shared)
    return begun, load(begun)


def _say_what_stays(study: str, begun: Settings, new: Settings) -> None:
    before, now = changed_settings(begun), changed_settings(new)
    for name in sorted({*before, *now}):
        was, is_now = getattr(begun, name), getattr(new, name)
        if was != is_now:
            say(f"{study} goes on with {name} = {was}, as it was begun; a new study would have {is_now}")


def _matrix(name: str) -> Matrix:
    return read_matrix(Path(name)) if name.endswith(".toml") else built_in(name)


def _overridden(matrix: Matrix, flags: StudyFlags) -> Matrix:
    seeds = seeds_of(flags.seeds) if flags.seeds is not None else None
    given: dict[str, Any] = {"name": flags.name, "rounds": flags.rounds, "nodes": flags.nodes, "seeds": seeds}
    return replace(matrix, **{name: value for name, value in given.items() if value is not None})


def seeds_of(text: str) -> tuple[int, ...]:
    """`1,2,7` as they are, `3` as 1, 2, 3; `7,` is seed 7 alone.

    Raises:
        ConfigError: it is neither.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() for word in words if word) or not words[0]:
        raise ConfigError(f"--seeds must be whole numbers separated by commas, or how many, got {text!r}")
    return tuple(int(word) for word in words if word) if "," in text else tuple(range(1, int(text) + 1))


def _whole(folder: Path, asked: StudyRecord) -> StudyRecord:
    """The study as it is from now on: the one that is there with what is asked for on top."""
    there = asked.study in studies(folder)
    whole = grown(read_study(folder, asked.study), asked) if there else asked
    return with_finished_elsewhere(whole, folder, asked.versions)


def _show_dry_run(record: StudyRecord, folder: Path, slurm: SlurmBackend | None) -> None:
    progress = {run.experiment: read_progress(RunReader(open_run(folder, run.experiment))) for run in record.runs}
    left = [name for name, done in progress.items() if not done.is_finished(record.rounds)]
    say(f"{record.title}: {len(left)} of {len(record.runs)} runs are to be done, {record.rounds} rounds of each")
    if slurm:
        say(describe_jobs(slurm, [(str(folder), name, part) for name in left for part in _parts(record)]))
    else:
        say("\n".join(f"  {name}, {progress[name].rounds_done} rounds done" for name in left))
    say("nothing was started or written; the same command without --dry-run does it")


def _parts(record: StudyRecord) -> tuple[str, ...]:
    """Of the programs of a run: its swarm, and its judge."""
    return ("", JUDGE_PART) if record.judged else ("",)


def _check(asked: StudyRecord, folder: Path, hub_token: str | None, *, here: bool) -> None:
    """Before anything is written or started: what every run would fail with is refused here.

    Args:
        here: the runs are on this machine.
    """
    runs = _different(asked, folder, hub_token)
    for settings in runs:
        check_tasks(settings)
    make_ready(runs, here=here)


def _different(record: StudyRecord, folder: Path, hub_token: str | None) -> list[Settings]:
    """The settings of all runs, those once that differ in nothing but their seed."""
    runs = (run_settings(record, one, folder, hub_token=hub_token) for one in record.runs)
    return list(dict.fromkeys(replace(settings, seed=0, experiment=record.study) for settings in runs))


def _places(record: StudyRecord, folder: Path, wanted: int | None, hub_token: str | None) -> int:
    """Swarms at a time: as many as wanted, or as there are cores, if the memory does for them.

    Raises:
        MemoryPlanError: it does not do for one.
    """
    jobs = min(wanted or cores(), len(record.runs))
    runs = _different(record, folder, hub_token)
    plans = [plan_for(settings, record.nodes, in_process=True) for settings in runs]
    fit = min((_how_many(plan) for plan in plans if plan), default=jobs)
    if fit < 1:
        raise MemoryPlanError(
            "the memory does not do for one swarm: fewer --nodes need less; `swarm plan` shows the parts"
        )
    if fit < jobs:
        say(f"{fit} swarms at a time, not {jobs}: the free memory does for no more")
    return min(jobs, fit)


def _how_many(plan: Plan) -> int:
    """How many such swarms fit, as far as their device and the host beside it have memory."""
    host = int(plan.device.host_free * (1 - RESERVE)) // plan.host_needed if plan.host_needed else None
    device = plan.usable // plan.needed
    return device if host is None else min(device, host)


async def _run(
    launcher: Launcher, jobs: int, liveness_timeout: float, again: str, slurm: SlurmBackend | None = None
) -> int:
    def is_live(run: Run) -> bool:
        return bool(live_nodes(run, time.time(), liveness_timeout))

    runner = Runner(launcher, jobs, is_live=is_live, monotonic=time.monotonic, wall=time.time)
    display, surviving = StudyDisplay(time.monotonic), Surviving()
    exit_code = 0
    record = launcher.record
    say(f"{record.title}: {len(record.runs)} runs of {record.rounds} rounds, {jobs} at a time")
    async with anyio.create_task_group() as tasks:

        def stop(code: int) -> None:
            nonlocal exit_code
            exit_code = code
            display.say(LEAVING if slurm else STOPPING)
            runner.stop()

        def show(view: StudyView) -> None:
            with surviving.view("the study's display"):
                display.show(view)

        tasks.start_soon(on_signals, stop, runner.insist)
        view = await runner.run(show)
        tasks.cancel_scope.cancel()
    code = _conclude(view, launcher.path, again, exit_code)
    if slurm and exit_code:
        say(how_to_follow(_jobs_of(view, launcher.path, slurm), again))
    return code


def _jobs_of(view: StudyView, folder: Path, slurm: SlurmBackend) -> list[str]:
    """The ids of the jobs that wait or run."""
    parts = [(run.run.experiment, part) for run in view.runs for part in _parts(view.record)]
    return [job.id for name, part in parts if (job := slurm.found(str(folder), name, part))]


def _conclude(view: StudyView, folder: Path, again: str, exit_code: int) -> int:
    say(results(view))
    failed = view.those(RunState.FAILED)
    if len(view.those(RunState.FINISHED)) == len(view.runs):
        exit_code = 0  # it was asked to stop when there was nothing left to do
    for one in failed:
        store, log = study_store(folder, view.record.study), run_log(one.run.experiment)
        say(f"\n{one.run.experiment} failed: {one.problem}; the end of {store.describe(log)}:")
        for line in _last_lines(store, log):
            say(f"  {line}")
    if exit_code or failed:
        say(f"{'go on' if exit_code else 'try them again'}: {again}")
    else:
        say(f"all of it: swarm study report {view.record.study} --path {shlex.quote(str(folder))}")
    return exit_code or (1 if failed else 0)


def _last_lines(store: Store, log: str) -> list[str]:
    """The end of a run's log; nothing of what is no file."""
    lines = (line for part in Growing(store, log).look(MOST_READS) for line in part.records)
    return [shorten(line.decode("utf-8", "replace"), LONGEST_LINE) for line in deque(lines, LAST_LINES)]
