"""`swarm up`: a local swarm in one command.

    settings ─▶ plan: a coordinator, N workers ─▶ Supervisor ─▶ daemons ─▶ the shared folder
                                                                              │ metrics, events
    terminal ◀─ nodes, round lines, warnings, summary, resume command ◀───────┘

It watches the folder like anybody else could; the daemons do not know that they are supervised. A daemon runs a
worker, or several that share a process; with `--in-process` one runs them all. With `--no-coordinator` each worker goes
through the rounds on its own clock.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated, NamedTuple

import anyio
from cyclopts import Parameter
from cyclopts.validators import Number

from swarm import entry_points
from swarm.cli.before_start import make_ready, refuse_place, refuse_unstartable, suited
from swarm.cli.copying import bring_back, mirror_beside, refuse_mirror
from swarm.cli.elsewhere import Elsewhere, ElsewhereFlags, Jobs, elsewhere_of
from swarm.cli.flags import as_settings, asked_for, command_again, flag_words, open_experiment, settings_from
from swarm.cli.fork_server import can_fork, fork_server
from swarm.cli.help import further
from swarm.cli.local_swarm import LocalSwarm, local_swarm, plan_of, show_dry_run, show_nodes, within_memory
from swarm.cli.plan import most_processes
from swarm.cli.processes import UP, refuse_live, this_process_runs
from swarm.cli.progress import Surviving, UpProgress, short_pause, stopping_line
from swarm.cli.run_flags import DEFAULT_WORKERS, UP_DEFAULTS, RunFlags, UpFlags
from swarm.cli.say import say
from swarm.cli.supervisor import (
    DaemonChild,
    ProgramBeside,
    ProgramsBeside,
    Supervisor,
    page_beside,
    programs_beside,
    where,
)
from swarm.config import Settings, StartRequest, without_settings
from swarm.config.sources import Given
from swarm.errors import ClusterError, ConfigError, ExperimentError, StoreError
from swarm.node.base.experiment import differences, is_begun, other_experiment, read_experiment
from swarm.node.process.daemon import run_loop
from swarm.node.process.system import INTERRUPTED, on_signals
from swarm.policy.embedded import suited_device
from swarm.records.files import read_clock
from swarm.records.history import NodeHistory, read_to_sum_up
from swarm.records.made_by import refuse_foreign
from swarm.records.reader import snapshot
from swarm.records.starts import last_starts
from swarm.spelling import named
from swarm.store.run import Run
from swarm.systems import require_for
from swarm.tasks.universe import check_tasks
from swarm.views.studies import AgainstRequest
from swarm.views.summary import render, summary_of
from swarm.wire import keys

POLL_SECONDS = 0.1
WRITER = "up"
"""Who makes the folder."""
PROBE = f"{keys.DRAFTS}/{WRITER}/probe"
LEAVING = "leaving: the jobs go on"
_MORE = further("More", 80)
MOST_NAMED = 8
"""Workers that a line names."""


def up(
    *,
    nodes: Annotated[
        int | None, Parameter(help=f"Number of workers; {DEFAULT_WORKERS} if not given.", validator=Number(gte=1))
    ] = None,
    dry_run: bool = False,
    in_process: Annotated[bool, Parameter(group=_MORE)] = False,
    no_coordinator: Annotated[bool, Parameter(negative="", group=_MORE)] = False,
    force: Annotated[bool, Parameter(group=_MORE)] = False,
    unless_finished: Annotated[bool, Parameter(group=_MORE)] = False,
    against: str | None = None,
    seeds: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    web: Annotated[bool, Parameter(negative="--no-web")] = True,
    cluster: ElsewhereFlags | None = None,
    up_flags: UpFlags | None = None,
) -> int:
    """Start a local swarm, a coordinator and workers over one folder, and watch it learn.

    Ctrl-C once: finish the step, save, say how to resume, exit 130; twice: end at once. With --on slurm each node is a
    job, Ctrl-C leaves them running, and the same command follows them again.

    Args:
        dry_run: Say what would be started, with the settings that are no defaults and the command of each node, and
            start nothing.
        in_process: All workers in one process: less memory, and one of them computes at a time.
        no_coordinator: No common rounds: each worker goes on as fast as it can.
        force: Start even if the memory will not do.
        unless_finished: An experiment that has its rounds is shown, with the ways to go on: exit 0, not 2.
        against: Run this swarm and one with other settings at once, and compare them: `alone`, where nobody shares, or
            settings such as external=0,local=8.
        seeds: With --against, so many runs of each, from --seed on; 1 if not given.
        web: At a terminal, serve the page of the run beside it.
    """
    require_for("`swarm up`")
    backend = elsewhere_of(cluster or ElsewhereFlags())
    switches = {"--in-process": in_process, "--no-coordinator": no_coordinator, "--force": force}
    if against is not None:
        if refused := [flag for flag, on in {"--on": backend, **switches}.items() if on]:
            raise ConfigError(f"--against runs two swarms on this machine: leave out {', '.join(refused)}")
        return _compare(nodes, against, seeds, up_flags, dry_run=dry_run)
    if seeds is not None:
        raise ConfigError("--seeds is for --against: name one seed with --seed, or give --against alone as well")
    planned = _planned_swarm(nodes, up_flags, in_process=in_process, no_coordinator=no_coordinator, backend=backend)
    swarm, settings, here = planned.swarm, planned.swarm.settings, backend is None
    refuse_place(settings.place)
    if settings.mirror:
        refuse_mirror(settings, here=here)
    given = [switch for switch, on in {**switches, "--no-web": not web}.items() if on]
    words = ["swarm", "up", "--nodes", str(len(swarm.workers)), *given, *flag_words(cluster)]
    asked = asked_for(words, up_flags, planned.base, **UP_DEFAULTS)
    if dry_run:
        _refuse_other_workers(open_experiment(settings, WRITER), swarm.worker_names)
        refuse_unstartable((*swarm.coordinators, *swarm.workers), here=here)
        show_dry_run(swarm, asked, settings, backend)
        return 0
    again = command_again(words, up_flags, without=("rounds",))  # the number of rounds is said at the end
    if settings.mirror:
        bring_back(settings, here=here)
    if unless_finished and (over := _said_if_finished(settings)):
        say(over)
        return 0
    return _start(swarm, asked, again, backend, force=force, web=web and here)


def _compare(nodes: int | None, against: str, seeds: int | None, up_flags: UpFlags | None, *, dry_run: bool) -> int:
    """Runs the swarm of the flags beside one with other settings. Returns the exit code."""
    swarm = _planned_swarm(nodes, up_flags, in_process=False, no_coordinator=False).swarm
    workers, flags = len(swarm.workers), up_flags or UpFlags()
    words = ["swarm", "up", "--nodes", str(workers), "--against", against]
    words += ["--seeds", str(seeds)] if seeds is not None else []
    compare = entry_points.needed(entry_points.AGAINST, "study", "--against")
    given, again = as_settings(flags), command_again(words, up_flags)
    asked = AgainstRequest(
        swarm.settings, workers, against, seeds or 1, given, flags.config, UP_DEFAULTS, again, dry_run
    )
    code: int = compare(asked)
    return code


def _start(
    swarm: LocalSwarm, asked: StartRequest, again: str, backend: Elsewhere | None, *, force: bool, web: bool
) -> int:
    settings, every_node = swarm.settings, (*swarm.coordinators, *swarm.workers)
    run = open_experiment(settings, WRITER)
    refuse_foreign(run)
    jobs = backend.jobs(settings.place, settings.experiment, os.environ) if backend else None
    if jobs is None:
        this_process_runs(settings, UP, swarm.names)  # before it looks: of two that start at once one sees the other
    refuse_live(settings, run, jobs.unfound(swarm.children(asked, settings), swarm.names) if jobs else swarm.names)
    programs = programs_beside(settings, swarm.worker_names)  # refused now rather than when nodes run
    _refuse_what_cannot_go_on(settings, run)
    _refuse_other_workers(run, swarm.worker_names)
    make_ready(every_node, here=jobs is None)
    fitting = within_memory(swarm, plan_of(swarm), force) if jobs is None else swarm
    _make_folder(run)
    children = fitting.children(asked, settings)
    show_nodes(children, commands=False)
    shown = page_beside(settings) if web and sys.stdout.isatty() else []
    try:
        code = run_loop(_run, fitting, run, children, [*programs, *mirror_beside(settings), *shown], again, jobs)
    except ClusterError:
        if jobs and jobs.left():
            say(jobs.how_to_follow(again))
        raise
    if web:
        say(f"open the page{' again' if shown else ''}: {shlex.join(['swarm', 'web', *where(settings)])}")
    return code


class _Planned(NamedTuple):
    swarm: LocalSwarm
    base: Given
    """What suits the models that are trained, or the experiment that goes on."""


def _planned_swarm(
    nodes: int | None,
    run_flags: RunFlags | None,
    *,
    in_process: bool,
    no_coordinator: bool,
    backend: Elsewhere | None = None,
) -> _Planned:
    """Plans the swarm of the flags. Raises ConfigError."""
    base = suited(run_flags, begins=True, **UP_DEFAULTS)
    settings = settings_from(run_flags, base=base, **UP_DEFAULTS)
    settings = replace(settings, clock="own") if no_coordinator else settings
    check_tasks(settings)
    processes = most_processes(settings, in_process=in_process, elsewhere=backend is not None)
    own_cores = backend.cores if backend else None
    return _Planned(local_swarm(settings, nodes or DEFAULT_WORKERS, processes, own_cores), base)


def _make_folder(run: Run) -> None:
    """Makes the folder before anything starts: one that cannot be made is named once, not by every node."""
    try:
        run.store.put(PROBE, b"", durable=False)
        run.store.remove(PROBE)
    except StoreError as error:
        raise StoreError(f"--path {run.place} cannot be used: {error}; name a folder that is writable") from None


def _refuse_what_cannot_go_on(settings: Settings, run: Run) -> None:
    """An experiment goes on with the settings that made it, or a new one is begun; nothing is ever overwritten."""
    experiment = read_experiment(run)
    if experiment is None:
        return
    if changed := differences(settings, experiment):
        if not is_begun(run):  # a start that was aborted left it
            run.store.remove(keys.EXPERIMENT)
            return
        raise ExperimentError(other_experiment(run, changed))
    if over := _finished(settings, run):
        raise ExperimentError(over)


def _refuse_other_workers(run: Run, names: Sequence[str]) -> None:
    """See that what goes on is done by some of those who began it; who is new, and who stays away, is said.

    Raises:
        ExperimentError: all of these workers are new in what others have done.
    """
    theirs = [start.node_id for start in last_starts(run) if start.role == "worker"]
    new, away = [name for name in names if name not in theirs], [name for name in theirs if name not in names]
    if not theirs or not is_begun(run):
        return
    if len(new) == len(names):
        raise ExperimentError(
            f"{run.store.describe()} has the workers {named(theirs, MOST_NAMED)}; this command would replace them by "
            f"{named(new, MOST_NAMED)}, which have learned nothing yet. Choose another --experiment, go on "
            f"with its own workers (`swarm join {shlex.quote(run.place)} --experiment {run.experiment} --node-id "
            f"{theirs[0]}`, and its coordinator), or add workers to it: `swarm node --nodes N`"
        )
    if new:
        say(f"new in this experiment, with the weights of their models: {named(new, MOST_NAMED)}")
    if away:
        say(f"took part in it before and are not started: {named(away, MOST_NAMED)}")


def _finished(settings: Settings, run: Run) -> str:
    """Returns what is to be said of an experiment that has all the rounds that are asked for; empty: it has not."""
    now = snapshot(run)
    over = now.finished
    if over is None or over.rounds < settings.max_rounds or not now.is_saved:  # not saved: a kill came in between
        return ""
    return (
        f"{run.store.describe()} is finished after {over.rounds} rounds: ask for more --rounds to go on with it, "
        f"or choose another --experiment for a new one"
    )


def _said_if_finished(settings: Settings) -> str:
    run = open_experiment(settings, WRITER)
    experiment = read_experiment(run)
    if experiment is None or differences(settings, experiment) or not (over := _finished(settings, run)):
        return ""
    sums, now = read_to_sum_up(run)
    return f"{render(summary_of(sums, now))}\n{over}"


async def _run(
    swarm: LocalSwarm,
    run: Run,
    children: list[DaemonChild],
    programs: list[ProgramBeside],
    again: str,
    jobs: Jobs | None = None,
) -> int:
    """Runs the nodes and what is beside them to their end. Returns the exit code."""
    async with _supervisor(swarm.settings, children, jobs) as supervisor:
        surviving = Surviving()
        pause = supervisor.heard if swarm.settings.sparing else short_pause
        progress = UpProgress(run, swarm, surviving, pause)
        beside = ProgramsBeside(programs, os.environ)
        say("the nodes load their models; the first round begins when all are there")
        exit_code = 0
        async with anyio.create_task_group() as watching:

            def stop(code: int) -> None:
                nonlocal exit_code
                exit_code = code
                say(LEAVING if jobs else stopping_line(progress.pace))
                supervisor.stop(signal.SIGINT if code == INTERRUPTED else signal.SIGTERM)

            def insist() -> None:
                supervisor.insist()
                beside.insist()

            watching.start_soon(on_signals, stop, insist)
            watching.start_soon(progress.show)
            async with beside.running(), anyio.create_task_group() as lives:
                for child in children:
                    lives.start_soon(supervisor.run, child)
                    if child.role == "coordinator":
                        with surviving.view("waiting for the clock"):
                            await _clock_is_running(run, swarm.settings, child)
            watching.cancel_scope.cancel()
        progress.show_new()
        code = _conclude(supervisor, run, swarm.settings.max_rounds, again, exit_code, surviving)
        if jobs and (exit_code or jobs.failure):
            say(jobs.how_to_follow(again))
        return code


@asynccontextmanager
async def _supervisor(
    settings: Settings, children: Sequence[DaemonChild], jobs: Jobs | None
) -> AsyncIterator[Supervisor | Jobs]:
    """Yields who starts and ends the nodes. Several processes of workers share what they import, where that can be."""
    of_workers = sum(child.role != "coordinator" for child in children)
    if jobs:
        yield jobs
    elif of_workers < 2 or not can_fork([suited_device(settings.device, settings.model)]):
        yield Supervisor(os.environ)
    else:
        async with fork_server(without_settings(os.environ), of_workers) as forks:
            yield Supervisor(os.environ, forks)


async def _clock_is_running(run: Run, settings: Settings, coordinator: DaemonChild) -> None:
    """An experiment that was finished is reopened by its coordinator; workers that came before would leave at once."""
    while coordinator.exit_code is None:
        state = read_clock(run).state
        if state is None or not state.finished or state.round >= settings.max_rounds:
            return
        await anyio.sleep(POLL_SECONDS)


def _conclude(
    supervisor: Supervisor | Jobs, run: Run, max_rounds: int, again: str, exit_code: int, surviving: Surviving
) -> int:
    """Says what failed, what was learned and how to go on. Returns the exit code."""
    if failed := supervisor.failure:
        say(f"\n{failed.node_id} failed with exit code {failed.exit_code}; its last lines:")
        for line in failed.lines:
            say(f"  {failed.node_id} | {line}")
        say(f"all of its log: {run.store.describe(keys.stdout(failed.node_id))}")
    sums: dict[str, NodeHistory] = {}
    with surviving.view("the summary"):
        sums, now = read_to_sum_up(run)
        if sums:
            say("\n" + render(summary_of(sums, now)))
    done = False
    with surviving.view("asking whether it is finished"):
        done = snapshot(run).finished is not None
    if failed and not sums:
        say("fix that, then run the same command again")
    elif done:
        say(f"go on with more rounds: {again} --rounds {2 * max_rounds}")
    else:
        say(f"resume: {again} --rounds {max_rounds}")
    return exit_code or (1 if failed or not done else 0)
