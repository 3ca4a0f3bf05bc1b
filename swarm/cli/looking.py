"""Commands that only look at a run, from its folder: `swarm status`, `summary` and `validate`."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from swarm.cli.flags import (
    CommonFlags,
    open_experiment,
    open_experiment_when_there,
    refuse_no_folder_for,
    settings_to_look,
)
from swarm.cli.logs import nodes_without_logs
from swarm.cli.say import print_result
from swarm.errors import ConfigError
from swarm.node.process.host import this_process
from swarm.records.rows import read_to_sum_up
from swarm.records.starts import last_starts
from swarm.store.place import open_place
from swarm.views import status as status_view
from swarm.views import summary as summary_view
from swarm.views import validate as validate_view
from swarm.views.looks import Looks
from swarm.views.plot import save_reward_plot
from swarm.views.run_records import Expected
from swarm.views.starts import render_starts

REFRESH_SECONDS = 2.0
"""Seconds between two looks of a status that is watched."""
_CLEAR = "\x1b[2J\x1b[H"


def status(
    *,
    experiment_flags: CommonFlags | None = None,
    watch: bool = False,
    started: bool = False,
    as_json: Annotated[bool, Parameter("--json")] = False,
) -> None:
    """Show the round and every node of an experiment.

    Args:
        experiment_flags: which experiment.
        watch: Refresh every 2 seconds, in a bucket more seldom, until the experiment is over or Ctrl-C is pressed;
            one that is not there yet is waited for.
        started: Show what each node was started with: settings, versions, code, models, machine, command.
        as_json: JSON instead of a table; with --watch, one line per refresh.
    """
    settings = settings_to_look(experiment_flags)
    if started and watch:
        raise ConfigError("--started shows what does not change, and --watch what does: give one of them")
    if started:
        print_result(last_starts(open_experiment(settings)), render_starts, as_json=as_json)
        return
    timeout = settings.cadence.liveness_timeout
    run = open_experiment_when_there(settings) if watch else open_experiment(settings)
    replication = partial(open_place(settings.place).replication, settings.experiment)
    reader = status_view.StatusReader(run, liveness_timeout=timeout, here=this_process(), replication=replication)
    looks, before = Looks(run.store, REFRESH_SECONDS), None
    while True:
        now = reader.read(time.time())
        if watch and not as_json and sys.stdout.isatty():
            sys.stdout.write(_CLEAR)
        if not print_result(now, status_view.render, as_json=as_json) or not watch:
            return
        if now.finished and not any(node.live for node in now.nodes):
            return
        seen = (now.round, now.stage, now.rollouts, [(node.node, node.state.partition(",")[0]) for node in now.nodes])
        time.sleep(looks.pause(news=seen != before))
        before = seen


def summary(
    *,
    experiment_flags: CommonFlags | None = None,
    plot: Path | None = None,
    as_json: Annotated[bool, Parameter("--json")] = False,
) -> None:
    """Show what an experiment learned, and plot it.

    Args:
        experiment_flags: which experiment.
        plot: Draw reward per round to this PNG or SVG file.
        as_json: JSON instead of tables.
    """
    refuse_no_folder_for("--plot", plot)
    run = open_experiment(settings_to_look(experiment_flags))
    print_result(summary_view.summarise_run(run), summary_view.render, as_json=as_json)
    if plot is not None:
        save_reward_plot(read_to_sum_up(run)[0], plot)


def validate(
    *,
    experiment_flags: CommonFlags | None = None,
    partial: bool = False,
    node: Annotated[tuple[str, ...], Parameter("--node")] = (),
    rounds: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    nodes: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    external: Annotated[int | None, Parameter(validator=Number(gte=0))] = None,
    as_json: Annotated[bool, Parameter("--json")] = False,
) -> int:
    """Check the folder of a run; exit 1 if it is not whole.

    It is held against what it has recorded of itself: its rounds, its workers, its external groups.

    Args:
        experiment_flags: which experiment.
        partial: Accept a run that has not finished.
        node: Only what this node put there, whatever else lies there; give it again for another one.
        rounds: It must have so many rounds, and every worker its row of the last one.
        nodes: It must have rows of just so many workers.
        external: Every row must want so many external groups, and every worker must have trained on some.
        as_json: JSON instead of text.
    """
    if node and nodes is not None:
        raise ConfigError("--nodes counts all workers, and --node leaves some out: give one of them")
    run = open_experiment(settings_to_look(experiment_flags))
    if unknown := [*nodes_without_logs(node, run)]:
        raise ConfigError("; ".join(unknown))
    expected = Expected(rounds=rounds, nodes=nodes, external=external)
    report = validate_view.validate(run, partial=partial, only=frozenset(node), expected=expected)
    print_result(report, validate_view.render, as_json=as_json)
    return 0 if report.ok else 1
