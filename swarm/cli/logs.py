"""`swarm logs`: the events of all nodes in order, and on as they come."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from swarm.cli.flags import CommonFlags, settings_from
from swarm.errors import ConfigError
from swarm.records.listing import nodes_with_logs
from swarm.records.stream import Event, EventStream, Wanted
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.views.events import render
from swarm.wire import keys

POLL_SECONDS = 0.5
"""The folder is listed and read so often while following: no file events are needed, so any file system will do."""


def logs(
    *,
    common: CommonFlags | None = None,
    follow: Annotated[bool, Parameter(("--follow", "-f"))] = False,
    lines: Annotated[int, Parameter(("--lines", "-n"), validator=Number(gte=0), show_default=True)] = 50,
    node: Annotated[tuple[str, ...], Parameter("--node")] = (),
    event: str = "*",
    level: Annotated[Literal["debug", "info", "warning", "error", "critical"], Parameter("--level")] = "debug",
    metrics: bool = False,
    as_json: Annotated[bool, Parameter("--json")] = False,
) -> None:
    """Show the events of all nodes in order, and follow them.

    Args:
        common: which experiment.
        follow: Keep showing new events of all nodes, those that join later too, until Ctrl-C.
        lines: Begin with so many of the last events.
        node: Only this node; give it again for another one.
        event: Only events whose name matches this pattern, such as 'round.*'.
        level: Only events of this level and above.
        metrics: Each node's metrics row of each round, too.
        as_json: The lines as they are in the folder.
    """
    settings = settings_from(common, os.environ)
    run = open_place(settings.shared_folder).open(settings.experiment)
    if node and not follow:
        _refuse_unknown(node, run)
    stream = EventStream(run, Wanted(frozenset(node), event, level, metrics))
    _show(stream.read_last(lines), as_json=as_json)
    while follow:
        time.sleep(POLL_SECONDS)
        _show(stream.read(), as_json=as_json)


def _refuse_unknown(asked: tuple[str, ...], run: Run) -> None:
    there = nodes_with_logs(run)
    for name in asked:
        if name not in there:
            logs = run.store.describe(keys.LOGS)
            raise ConfigError(f"--node {name}: no such node has logs in {logs}; there are {', '.join(there)}")


def _show(events: list[Event], *, as_json: bool) -> None:
    for line in map(_raw, events) if as_json else render(events):
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _raw(event: Event) -> str:
    """A line as it lies in the folder, what a terminal would obey escaped as in JSON; it need not be JSON at all."""
    text = event.line.decode("utf-8", "replace")
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
