"""Commands that only look at a run, from its folder: `swarm status`, `logs`, `summary` and `validate`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from swarm.cli.flags import CommonFlags, open_experiment, settings_from
from swarm.cli.paint import painted
from swarm.cli.say import print_result, warn
from swarm.cli.waiting import open_experiment_when_there
from swarm.errors import ConfigError
from swarm.harmless import escaped, printable_lines
from swarm.node.process.host import this_process
from swarm.records.event_names import EVENTS
from swarm.records.expected import Expected
from swarm.records.listing import nodes_with_logs
from swarm.records.rows import read_to_sum_up
from swarm.records.stream import METRICS_EVENT, UNREADABLE, Event, EventStream, Wanted
from swarm.spelling import did_you_mean
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.views import events as event_view
from swarm.views import status as status_view
from swarm.views import summary as summary_view
from swarm.views import validate as validate_view
from swarm.views.plot import save_reward_plot
from swarm.views.text import shorten
from swarm.wire import keys

REFRESH_SECONDS = 2.0
"""Of a status that is watched."""
POLL_SECONDS = 0.5
"""The folder is listed and read so often while logs are followed: no file events are needed, so any file system will
do."""
MOST_NAMED = 1000
"""Characters of the names that there are."""
_CLEAR = "\x1b[2J\x1b[H"


def status(
    *, common: CommonFlags | None = None, watch: bool = False, as_json: Annotated[bool, Parameter("--json")] = False
) -> None:
    """Show the round and every node of an experiment.

    Args:
        common: which experiment.
        watch: Refresh every 2 seconds until Ctrl-C; an experiment that is not there yet is waited for.
        as_json: JSON instead of a table; with --watch, one line per refresh.
    """
    settings = settings_from(common)
    timeout = settings.liveness_timeout
    run = open_experiment_when_there(settings) if watch else open_experiment(settings)
    replication = partial(open_place(settings.place).replication, settings.experiment)
    reader = status_view.StatusReader(run, liveness_timeout=timeout, here=this_process(), replication=replication)
    while True:
        now = reader.read(time.time())
        if watch and not as_json and sys.stdout.isatty():
            sys.stdout.write(_CLEAR)
        if not print_result(now, status_view.render, as_json=as_json) or not watch:
            return
        time.sleep(REFRESH_SECONDS)


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
        follow: Keep showing new events of all nodes, those that join later too, until Ctrl-C; an experiment that is not
            there yet is waited for.
        lines: Begin with so many of the last events.
        node: Only this node; give it again for another one.
        event: Only events whose name matches this pattern, such as 'round.*'; one that is neither this version's nor in
            the logs is refused.
        level: Only events of this level and above.
        metrics: Each node's metrics row of each round, too.
        as_json: The lines as they are in the folder.
    """
    settings = settings_from(common)
    run = open_experiment_when_there(settings) if follow else open_experiment(settings)
    unknown = [*_nodes_without_logs(node, run), *_event_of_no_log(event, run)]
    if unknown and not follow:
        raise ConfigError("; ".join(unknown))
    for said in unknown:  # it may come
        warn(said)
    stream = EventStream(run, Wanted(frozenset(node), event, level, metrics))
    last = stream.read_last(lines)
    for of, unseen in sorted(stream.unseen.items()):
        warn(f"{of}: {unseen} lines were not looked into, for so many would take minutes: name it with --node")
    if lines and not last and not follow:
        warn(f"no event in {run.store.describe(keys.LOGS)} is of the level, name and node that were asked for")
    _show_events(last, as_json=as_json)
    while follow:
        time.sleep(POLL_SECONDS)
        _show_events(stream.read_on(), as_json=as_json)


def _nodes_without_logs(asked: tuple[str, ...], run: Run) -> Iterator[str]:
    """A sentence on each."""
    there = nodes_with_logs(run) if asked else []
    for name in asked:
        if name not in there:
            logs, names = run.store.describe(keys.LOGS), shorten(", ".join(there), MOST_NAMED)
            yield f"--node {name}: no such node has logs in {logs}; there are {names}{did_you_mean(name, there)}"


def _event_of_no_log(pattern: str, run: Run) -> Iterator[str]:
    """A sentence on the name of an event that nobody says, neither this version nor whoever wrote into the logs."""
    if any(fnmatchcase(name, pattern) for name in (*EVENTS, METRICS_EVENT, UNREADABLE)):
        return
    if not EventStream(run, Wanted(event=pattern, metrics=True)).read_last(1):
        kinds = sorted({f"{name.partition('.')[0]}.*" for name in EVENTS if "." in name})
        meant = did_you_mean(pattern, [*sorted(EVENTS), *kinds], f"; there are {', '.join(kinds)}")
        yield f"--event {pattern}: no such event is said, nor in {run.store.describe(keys.LOGS)}{meant}"


def _show_events(events: list[Event], *, as_json: bool) -> None:
    for line in map(_raw, events) if as_json else event_view.render(events):
        sys.stdout.write(painted(printable_lines(line), sys.stdout) + "\n")
    sys.stdout.flush()


def _raw(event: Event) -> str:
    """A line as it lies in the folder, what a terminal would obey escaped as in JSON; it need not be JSON at all."""
    return escaped(event.line.decode("utf-8", "replace"))


def summary(
    *,
    common: CommonFlags | None = None,
    plot: Path | None = None,
    as_json: Annotated[bool, Parameter("--json")] = False,
) -> None:
    """Show what an experiment learned, and plot it.

    Args:
        common: which experiment.
        plot: Draw reward per round to this PNG or SVG file.
        as_json: JSON instead of tables.
    """
    run = open_experiment(settings_from(common))
    print_result(summary_view.summarise_run(run), summary_view.render, as_json=as_json)
    if plot is not None:
        save_reward_plot(read_to_sum_up(run)[0], plot)


def validate(
    *,
    common: CommonFlags | None = None,
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
        common: which experiment.
        partial: Accept a run that has not finished.
        node: Only what this node put there, whatever else lies there; give it again for another one.
        rounds: It must have so many rounds, and every worker its row of the last one.
        nodes: It must have rows of just so many workers.
        external: Every row must want so many external groups, and every worker must have trained on some.
        as_json: JSON instead of text.
    """
    if node and nodes is not None:
        raise ConfigError("--nodes counts all workers, and --node leaves some out: give one of them")
    run = open_experiment(settings_from(common))
    if unknown := [*_nodes_without_logs(node, run)]:
        raise ConfigError("; ".join(unknown))
    expected = Expected(rounds=rounds, nodes=nodes, external=external)
    report = validate_view.validate(run, partial=partial, only=frozenset(node), expected=expected)
    print_result(report, validate_view.render, as_json=as_json)
    return 0 if report.ok else 1
