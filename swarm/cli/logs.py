"""`swarm logs`: the events of all nodes of a run, from its folder."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from swarm.cli.flags import CommonFlags, open_experiment, open_experiment_when_there, settings_to_look
from swarm.cli.say import painted, warn
from swarm.errors import ConfigError
from swarm.harmless import escaped, printable_lines
from swarm.records.listing import nodes_with_logs
from swarm.records.stream import Event, EventStream, WantedEvents
from swarm.spelling import did_you_mean
from swarm.store.run import Run
from swarm.views.events import render
from swarm.views.looks import Looks
from swarm.views.text import shorten
from swarm.wire import keys

POLL_SECONDS = 0.5
"""The folder is listed and read so often while logs are followed: no file events are needed, so any file system will
do."""
MOST_NAMED = 1000
"""Characters of the names that there are."""
LINES, LINES_SINCE = 50, 1000
"""Events that are shown unless it is said how many; with a time from which on they are wanted."""

Form = Literal["text", "wide", "json"]


def logs(
    *,
    experiment_flags: CommonFlags | None = None,
    follow: Annotated[bool, Parameter(("--follow", "-f"))] = False,
    lines: Annotated[int | None, Parameter(("--lines", "-n"), validator=Number(gte=0))] = None,
    since: str | None = None,
    node: Annotated[tuple[str, ...], Parameter("--node")] = (),
    event: str = "*",
    level: Annotated[Literal["debug", "info", "warning", "error", "critical"], Parameter("--level")] = "debug",
    metrics: bool = False,
    output: Annotated[Form, Parameter(("--output", "-o"), show_default=True)] = "text",
    as_json: Annotated[bool, Parameter("--json")] = False,
) -> None:
    """Show the events of all nodes in order, and follow them.

    Args:
        experiment_flags: which experiment.
        follow: Keep showing new events of all nodes, those that join later too, until Ctrl-C; an experiment that is not
            there yet is waited for.
        lines: Begin with so many of the last events; with --since 1000. [default: 50]
        since: Only events of the last 10m, 1h30m, 2d, or since a time such as 2026-07-01T12:30 (local unless it says
            otherwise).
        node: Only this node; give it again for another one.
        event: Only events whose name matches this pattern, such as 'round.*'.
        level: Only events of this level and above.
        metrics: Each node's metrics row of each round, too.
        output: text; wide: with date, zone and logger; json: the lines as they are in the folder.
        as_json: The same as --output json.
    """
    form: Form = "json" if as_json else output
    settings = settings_to_look(experiment_flags)
    wanted = WantedEvents(
        frozenset(node), event, level, metrics, moment(since, time.time(), "--since") if since else 0.0
    )
    run = open_experiment_when_there(settings) if follow else open_experiment(settings)
    unknown = [*nodes_without_logs(node, run)]
    if unknown and not follow:
        raise ConfigError("; ".join(unknown))
    for said in unknown:  # it may come
        warn(said)
    stream = EventStream(run, wanted)
    _show(_last(stream, lines, wanted, run, follow=follow), form)
    looks, news = Looks(run.store, POLL_SECONDS), True
    while follow:
        time.sleep(looks.pause(news=news))
        events = stream.read_on()
        _show(events, form)
        news = bool(events)


def _last(stream: EventStream, lines: int | None, wanted: WantedEvents, run: Run, *, follow: bool) -> list[Event]:
    most = (LINES_SINCE if wanted.since else LINES) if lines is None else lines
    last = stream.read_last(most)
    for of, unseen in sorted(stream.unseen.items()):
        warn(f"{of}: {unseen} older lines were left out, because reading them takes minutes: choose it with --node")
    if most and not last and not follow:
        asked = "level, name, time and node" if wanted.since else "level, name and node"
        warn(f"no event in {run.store.describe(keys.LOGS)} is of the {asked} that were asked for")
    if wanted.since and lines is None and len(last) == most:
        warn(f"these are the last {most} since then: --lines shows more")
    return last


def nodes_without_logs(asked: tuple[str, ...], run: Run) -> Iterator[str]:
    """Yields a sentence on each."""
    there = nodes_with_logs(run) if asked else []
    for name in asked:
        if name not in there:
            logs, names = run.store.describe(keys.LOGS), shorten(", ".join(there), MOST_NAMED)
            yield f"--node {name}: no such node has logs in {logs}; there are {names}{did_you_mean(name, there)}"


def _show(events: list[Event], form: Form) -> None:
    """Prints lines; as they lie in the folder, what a terminal would obey is escaped as in JSON, which they need not
    be."""
    raw = (escaped(event.line.decode("utf-8", "replace")) for event in events)
    for line in raw if form == "json" else render(events, wide=form == "wide"):
        sys.stdout.write(painted(printable_lines(line), sys.stdout) + "\n")
    sys.stdout.flush()


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART = r"(\d{1,9}(?:\.\d{1,9})?)([smhdw])"
_DURATION = re.compile(rf"(?:{_PART})+")

_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def moment(text: str, now: float, asked_by: str) -> float:
    """Unix seconds of `10m`, `1h30m` or `2d` before now, or of a time such as `2026-07-01T12:30Z`.

    Args:
        now: Unix seconds.
        asked_by: the flag, for the message.

    Raises:
        ConfigError: it is neither.
    """
    clean = text.strip()
    if _DURATION.fullmatch(clean):
        return now - sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, clean))
    try:
        if not _DATE.match(clean):
            raise ValueError(clean)
        return datetime.fromisoformat(clean).timestamp()
    except (ValueError, OverflowError, OSError):
        raise ConfigError(
            f"{asked_by} {text[:80]!r}: expected how long ago, such as 90s, 10m, 1h30m, 2d or 1w, or a time, "
            "such as 2026-07-01 or 2026-07-01T12:30:00Z"
        ) from None
