"""`swarm status`: the round and every node of a run, from its folder."""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Annotated

from cyclopts import Parameter

from swarm import entry_points
from swarm.cli.flags import CommonFlags, open_experiment, open_experiment_when_there, settings_to_look
from swarm.cli.say import print_result
from swarm.errors import ConfigError
from swarm.node.process.host import this_machine
from swarm.records.starts import last_starts
from swarm.store.place import open_place
from swarm.views import status as status_view
from swarm.views.looks import Looks
from swarm.views.starts import render_starts

REFRESH_SECONDS = 2.0
"""Seconds between two looks of a status that is watched."""
_CLEAR = "\x1b[2J\x1b[H"


def status(
    *,
    experiment_flags: CommonFlags | None = None,
    watch: bool = False,
    started: bool = False,
    notify: str | None = None,
    as_json: Annotated[bool, Parameter("--json")] = False,
) -> None:
    """Show the round and every node of an experiment.

    Args:
        experiment_flags: which experiment.
        watch: Refresh every 2 seconds, in a bucket more seldom, until the experiment is over or Ctrl-C is pressed;
            one that is not there yet is waited for.
        started: Show what each node was started with: settings, versions, code, models, machine, command.
        notify: With --watch, tell a command (JSON on its standard input) or a webhook (an https URL) when a node goes
            silent or falls behind, or the disk fills, and when it is well again.
        as_json: JSON instead of a table; with --watch, one line per refresh.
    """
    settings = settings_to_look(experiment_flags)
    if started and watch:
        raise ConfigError("--started shows what does not change, and --watch what does: give one of them")
    if notify is not None and not watch:
        raise ConfigError("--notify tells what changes: give it with --watch")
    if started:
        print_result(last_starts(open_experiment(settings)), render_starts, as_json=as_json)
        return
    timeout = settings.cadence.liveness_timeout
    run = open_experiment_when_there(settings) if watch else open_experiment(settings)
    told = entry_points.needed(entry_points.NOTIFY, "notify", "--notify")(notify, run) if notify is not None else None
    replication = partial(open_place(settings.place).replication, settings.experiment)
    reader = status_view.StatusReader(run, liveness_timeout=timeout, here=this_machine(), replication=replication)
    looks, before = Looks(run.store, REFRESH_SECONDS), None
    while True:
        now = reader.read(time.time())
        if told:
            told(now)
        if watch and not as_json and sys.stdout.isatty():
            sys.stdout.write(_CLEAR)
        if not print_result(now, status_view.render, as_json=as_json) or not watch:
            return
        if now.finished and not any(node.live for node in now.nodes):
            return
        seen = (now.round, now.stage, now.rollouts, [(node.node, node.state.partition(",")[0]) for node in now.nodes])
        time.sleep(looks.pause(news=seen != before))
        before = seen
