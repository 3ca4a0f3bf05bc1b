"""`swarm up`: a local swarm in one command.

    settings ─▶ plan: a coordinator, N workers ─▶ Supervisor ─▶ daemons ─▶ the shared folder
                                                                              │ metrics, events
    terminal ◀─ commands, round lines, warnings, summary, resume command ◀────┘

It watches the folder like anybody else could; the daemons do not know that they are supervised. With `--in-process`
one daemon runs all workers; with `--no-coordinator` each of them goes through the rounds on its own clock.
"""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from typing import Annotated, Any

import anyio
from cyclopts import Parameter

from swarm.cli.flags import RunFlags, command_again, open_experiment, settings_from
from swarm.cli.live import refuse_live
from swarm.cli.plan_text import changes, verdict
from swarm.cli.processes import UP, this_process_runs
from swarm.cli.progress import Progress
from swarm.cli.say import say
from swarm.cli.supervisor import Child, Supervisor
from swarm.cli.surviving import Surviving
from swarm.config import Settings
from swarm.errors import ConfigError, ExperimentError, MemoryPlanError, StoreError
from swarm.node.base.experiment import differences, other_experiment, read_experiment
from swarm.node.process.stopping import INTERRUPTED, on_signals
from swarm.node.process.wiring import checked_tasks
from swarm.node.process.worker_settings import cores, settings_of_workers
from swarm.records.files import read_clock
from swarm.records.made_by import refuse_foreign
from swarm.records.reader import snapshot
from swarm.records.rows import read_metrics_and_odd
from swarm.store.run import Run
from swarm.systems import require_for
from swarm.views.summary import render, summarise
from swarm.wire import keys
from swarm.wire.messages import MetricsRow

DEFAULTS: dict[str, Any] = {"max_rounds": 40, "local_groups": 4, "external_groups": 4, "checkpoint_interval": 10}
"""A demonstration of a few minutes on a laptop, where the settings of a node are those of the paper."""
DEFAULT_WORKERS = 4
WORKER = "worker"
"""The workers are called worker-0, worker-1, ..."""
COORDINATOR = "coordinator"
POLL_SECONDS = 0.1
WRITER = "up"
"""Who writes the plot."""
PROBE = f"{keys.DRAFTS}/{WRITER}/probe"
PLOT = "reward.png"


def up(
    *,
    nodes: Annotated[int, Parameter(help="Number of workers.")] = DEFAULT_WORKERS,
    in_process: Annotated[
        bool, Parameter(help="All workers in one process: less memory, and one of them computes at a time.")
    ] = False,
    no_coordinator: Annotated[
        bool, Parameter(negative="", help="No common rounds: each worker goes on as fast as it can.")
    ] = False,
    force: Annotated[bool, Parameter(help="Start even if the memory will not do.")] = False,
    flags: RunFlags | None = None,
) -> int:
    """Start a local swarm, a coordinator and workers over one folder, and watch it learn.

    Ctrl-C once: finish the step, save, say how to resume, exit 130; twice: end at once.
    """
    require_for("`swarm up`")
    if nodes < 1:
        raise ConfigError(f"--nodes must be at least 1, got {nodes}")
    settings = settings_from(flags, **DEFAULTS)
    settings = replace(settings, clock="own") if no_coordinator else settings
    checked_tasks(settings)
    run = open_experiment(settings, WRITER)
    refuse_foreign(run)
    names = names_of(settings, nodes)
    this_process_runs(settings, UP, names)  # before it looks for others: of two that start at once one sees the other
    refuse_live(settings, run, names)
    _refuse_what_cannot_go_on(settings, run)
    settings = _within_memory(settings, nodes, in_process, force)
    _make_folder(run)
    children = (daemons_in_process if in_process else daemons)(settings, nodes)
    switches = {"--in-process": in_process, "--no-coordinator": no_coordinator, "--force": force}
    words = ["swarm", "up", "--nodes", str(nodes), *(switch for switch, given in switches.items() if given)]
    again = command_again(words, flags, without=("rounds",))  # the number of rounds is said at the end
    return anyio.run(_run, settings, run, nodes, children, again)


def _within_memory(settings: Settings, nodes: int, in_process: bool, force: bool) -> Settings:
    """The settings with micro-batches, or gradient checkpointing, that the plan needs for them to fit.

    Raises:
        MemoryPlanError: nothing makes them fit, and nobody insists.
    """
    from swarm.planner.planner import plan_for

    made = plan_for(settings, nodes, in_process)
    if made is None:
        return settings
    if not made.fits:
        if not force:
            raise MemoryPlanError(
                f"{verdict(made)}. Run at most {made.most_nodes} --nodes, or several in one process with --in-process; "
                "`swarm plan` shows the parts; --force starts all the same"
            )
        say(verdict(made))
    if changed := changes(made, settings):
        say(changed)
    checkpointing = made.gradient_checkpointing or settings.gradient_checkpointing
    return replace(settings, gradient_checkpointing=checkpointing, micro_batch_tokens=made.micro_batch_tokens)


def _make_folder(run: Run) -> None:
    """Before anything starts: a folder that cannot be made is named once, not by every node."""
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
        raise ExperimentError(other_experiment(run, changed))
    now = snapshot(run)
    over = now.finished
    if over is not None and over.rounds >= settings.max_rounds and now.is_saved:  # else a kill came in between
        raise ExperimentError(
            f"{run.store.describe()} is finished after {over.rounds} rounds: ask for more --rounds to go on with it, "
            f"or choose another --experiment for a new one"
        )


def daemons(settings: Settings, nodes: int) -> list[Child]:
    """The coordinator, if there is to be one, and the workers, a process each, with a share of the cores."""
    threads = settings.threads or max(1, cores() // nodes)
    workers = settings_of_workers(replace(_of_workers(settings, nodes), threads=threads), nodes)
    children = [Child(str(worker.node_id), "worker", worker.as_environment()) for worker in workers]
    return [*_coordinators(settings, nodes), *children]


def daemons_in_process(settings: Settings, nodes: int) -> list[Child]:
    """The coordinator, and one process of all workers: as only one of them computes at a time, the cores are its."""
    environment = _of_workers(settings, nodes).as_environment()
    return [*_coordinators(settings, nodes), Child(f"{WORKER}-*", "workers", environment, ("--nodes", str(nodes)))]


def names_of(settings: Settings, nodes: int) -> list[str]:
    """The ids of all nodes that are started."""
    workers = settings_of_workers(_of_workers(settings, nodes), nodes)
    return [child.node_id for child in _coordinators(settings, nodes)] + [str(worker.node_id) for worker in workers]


def _coordinators(settings: Settings, nodes: int) -> list[Child]:
    """One, or none where each node keeps its own clock."""
    if settings.clock == "own":
        return []
    mine = replace(_shared(settings, nodes), role="coordinator", node_id=COORDINATOR, hub_token=None)
    return [Child(COORDINATOR, "coordinator", mine.as_environment())]


def _of_workers(settings: Settings, nodes: int) -> Settings:
    return replace(_shared(settings, nodes), role="worker", node_id=WORKER)


def _shared(settings: Settings, nodes: int) -> Settings:
    return replace(settings, path=str(settings.shared_folder), expected_workers=nodes)


async def _run(settings: Settings, run: Run, nodes: int, children: list[Child], again: str) -> int:
    supervisor = Supervisor(os.environ)
    surviving = Surviving()
    progress = Progress(run, settings, nodes, surviving)
    for child in children:
        say(f"{child.node_id:<12} {child.command}")
    say("the nodes load their models; the first round begins when all are there")
    exit_code = 0
    async with anyio.create_task_group() as watching:

        def stop(code: int) -> None:
            nonlocal exit_code
            exit_code = code
            say("stopping: every node finishes its step and saves; once more ends them at once")
            supervisor.stop(signal.SIGINT if code == INTERRUPTED else signal.SIGTERM)

        watching.start_soon(on_signals, stop, supervisor.insist)
        watching.start_soon(progress.show)
        async with anyio.create_task_group() as lives:
            for child in children:
                lives.start_soon(supervisor.run, child)
                if child.role == "coordinator":
                    with surviving.view("waiting for the clock"):
                        await _clock_is_running(run, settings, child)
        watching.cancel_scope.cancel()
    progress.show_new()
    return _conclude(supervisor, run, settings, again, exit_code, surviving)


async def _clock_is_running(run: Run, settings: Settings, coordinator: Child) -> None:
    """An experiment that was finished is reopened by its coordinator; workers that came before would leave at once."""
    while coordinator.exit_code is None:
        state = read_clock(run).state
        if state is None or not state.finished or state.round >= settings.max_rounds:
            return
        await anyio.sleep(POLL_SECONDS)


def _conclude(
    supervisor: Supervisor, run: Run, settings: Settings, again: str, exit_code: int, surviving: Surviving
) -> int:
    if failed := supervisor.failure:
        say(f"\n{failed.node_id} failed with exit code {failed.exit_code}; its last lines:")
        for line in failed.lines:
            say(f"  {failed.node_id} | {line}")
        say(f"all of its log: {run.store.describe(keys.stdout(failed.node_id))}")
    rows: dict[str, list[MetricsRow]] = {}
    with surviving.view("the summary"):
        rows, odd = read_metrics_and_odd(run)
        if rows:
            say("\n" + render(summarise(rows, odd)))
    with surviving.view("the plot"):
        if rows:
            _plot(rows, run)
    done = False
    with surviving.view("asking whether it is finished"):
        done = snapshot(run).finished is not None
    if failed and not rows:
        say("fix that, then run the same command again")
    elif done:
        say(f"go on with more rounds: {again} --rounds {2 * settings.max_rounds}")
    else:
        say(f"resume: {again} --rounds {settings.max_rounds}")
    return exit_code or (1 if failed or not done else 0)


def _plot(rows: dict[str, list[MetricsRow]], run: Run) -> None:
    from swarm.views.plot import reward_plot

    try:
        run.store.put(PLOT, reward_plot(rows, "png"), durable=False)
    except (ConfigError, StoreError) as error:
        say(f"no plot: {error}")
    else:
        say(f"plot: {run.store.describe(PLOT)}")
