"""`swarm bugreport`: what is needed to find a fault, redacted, shown before it is written.

versions, machine, settings, doctor, status, hints, starts, events, output ─▶ bounded ─▶ redacted ─▶ terminal ─▶ a file
                                                                                                       "write it?"
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from swarm.cli import doctor as doctor_view
from swarm.cli.flags import CommonFlags, open_experiment, refuse_no_folder_for, settings_from, settings_to_examine
from swarm.cli.run_flags import NodeFlags
from swarm.cli.say import painted, say
from swarm.cli.settings import list_settings
from swarm.config import Settings
from swarm.config.constraints import as_text
from swarm.errors import ConfigError, ExperimentError, SwarmError
from swarm.harmless import printable, printable_lines
from swarm.node.process.host import this_process
from swarm.provenance import machine, versions
from swarm.records.growing import lines_of, parse_line
from swarm.records.listing import nodes_with_logs
from swarm.records.starts import last_starts
from swarm.records.stream import Event, last_events
from swarm.store.place import open_place
from swarm.store.run import Run
from swarm.views import events as event_view
from swarm.views import status as status_view
from swarm.views.doctor.examine import examine
from swarm.views.redaction import Redaction, redaction_here
from swarm.views.starts import render_starts
from swarm.views.text import render_hints
from swarm.wire import keys

FILE = "swarm-bugreport.txt"
EVENTS, ERRORS, PRINTED, NODES = 40, 10, 20, 12
"""Last events, last warnings and errors, last lines printed of each node, and how many nodes are looked at."""
LONGEST_LINE, LONGEST_PART = 400, 30_000
"""Characters."""
LONGEST_LOOKED_AT = 4 * LONGEST_LINE
"""Characters of a line that are redacted, before it is cut to LONGEST_LINE."""
MOST_PARSED = 10_000
"""Lines of one node's log that are looked into at once for its last events."""
MOST_PATHS = 20
"""That the record of a node's start names."""
LEFT_OUT = frozenset(
    {"prompt", "prompts", "question", "completion", "completions", "response", "answer", "text", "reply", "replies"}
)
"""Fields of events that hold what models were asked or said: nobody's to hand on."""

_TEXTS = re.compile(rf"\b({'|'.join(sorted(LEFT_OUT))})=.*")
"""The same in a line for people, to its end."""


def bugreport(
    *,
    experiment_flags: CommonFlags | None = None,
    write: Annotated[Path | None, Parameter(help="Write it to this file without asking.")] = None,
    yes: Annotated[bool, Parameter(help=f"Write it to {FILE} without asking.")] = False,
    doctor: Annotated[
        bool, Parameter(negative="--no-doctor", help="Examine the folder, which takes some seconds; or not.")
    ] = True,
) -> int:
    """Collect what is needed to find a fault: redacted, shown, and written after a yes.

    Home folder, user, machine, absolute paths, addresses, tokens and keys are replaced; prompts and completions are
    left out. Names of nodes, experiments and models stay: read it before you send it.
    """
    refuse_no_folder_for("--write", write)
    experiment_flags = experiment_flags or CommonFlags()
    try:
        settings = settings_to_examine(experiment_flags)
    except ExperimentError:  # there are several, which the report says: it is made all the same
        settings = settings_from(experiment_flags)
    run = _run(settings)
    redaction = redaction_here(os.environ, settings.place, _paths(settings, run))
    text = "\n".join(_parts(settings, experiment_flags, run, redaction, doctor=doctor))
    sys.stdout.write(painted(text, sys.stdout) + "\n")
    target = write or Path(FILE)
    if write is None and not yes and not _asked(target):
        say(f"nothing was written; `swarm bugreport --write {FILE}` writes it")
        return 0
    try:
        with open(target, "x", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        raise ConfigError(f"the report cannot be written: {error}; name another file with --write") from None
    say(f"written: {target}; read it before you send it")
    return 0


def _paths(settings: Settings, run: Run | None) -> Iterator[str]:
    """Yields the paths that settings and the starts of nodes name: models, and folders, which may hold spaces."""
    yield from (value for value in (settings.path, settings.key_folder, *settings.model) if value)
    with suppress(SwarmError):
        for start in last_starts(run)[:NODES] if run else ():
            said = chain(start.models, (text for value in start.settings.values() for text in _texts(value)))
            paths = (text for text in said if os.path.isabs(text) and len(text) <= LONGEST_LINE)
            yield from islice(paths, MOST_PATHS)


def _texts(value: object) -> list[str]:
    return [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]


def _asked(target: Path) -> bool:
    sys.stdout.flush()
    return sys.stdin.isatty() and input(f"write this to {target}? [y/N] ").strip().lower() in ("y", "yes")


def _parts(
    settings: Settings, experiment_flags: CommonFlags, run: Run | None, redaction: Redaction, *, doctor: bool
) -> Iterator[str]:
    """Title and text of each part; one that fails says so, and the others are there."""
    parts: dict[str, Callable[[], str]] = {
        "versions": lambda: _pairs(versions(settings)),
        "machine": lambda: _pairs(machine()),
        "settings": lambda: _settings(experiment_flags),
    }
    if doctor:
        parts["doctor"] = lambda: doctor_view.render(examine(settings))
    if run is not None:
        reader = status_view.StatusReader(run, liveness_timeout=settings.cadence.liveness_timeout, here=this_process())
        status = cache(lambda: reader.read(time.time()))
        parts |= {
            "status": lambda: status_view.render(status()),
            "hints": lambda: render_hints(status().hints) or "none",
            "starts": lambda: render_starts(last_starts(run)[:NODES]),
            "warnings and errors": lambda: _events(run, "warning", ERRORS),
            "events": lambda: _events(run, "info", EVENTS),
            "output": lambda: _printed(run),
        }
    yield "a report of `swarm bugreport`; paths, names of user and machine and secrets are replaced"
    for title, part in parts.items():
        yield f"\n## {title}\n\n{_bounded(redaction.redacted(_whole_words(_tried(part), LONGEST_LOOKED_AT)))}"
    if run is None:
        missing = _tried(lambda: open_place(settings.place).without(settings.experiment))
        yield f"\n{printable(redaction.redacted(missing))}"


def _tried(part: Callable[[], str]) -> str:
    try:
        return part()
    except Exception as error:  # noqa: BLE001 - a report on a fault must not end with it
        return f"failed: {type(error).__name__}: {error}"


def _whole_words(text: str, longest: int) -> str:
    """Returns the text with lines of at most so many characters: a word that would be cut goes, for half a secret is
    not recognised."""
    lines = text.split("\n")
    return "\n".join(ln if len(ln) <= longest else f"{ln[:longest].rpartition(' ')[0]} ..." for ln in lines)


def _bounded(text: str) -> str:
    """Returns the last part of it, in lines that are not too long, with nothing that a terminal would obey."""
    clean = printable_lines(_cut(text, LONGEST_LINE))
    return clean if len(clean) <= LONGEST_PART else f"... {clean[-LONGEST_PART:]}"


def _cut(text: str, longest: int) -> str:
    """Returns the text with lines of at most so many characters."""
    return "\n".join(line if len(line) <= longest else f"{line[:longest]}..." for line in text.split("\n"))


def _pairs(values: dict[str, Any]) -> str:
    return "\n".join(f"{name:<14}{as_text(value)}" for name, value in values.items())


def _settings(experiment_flags: CommonFlags) -> str:
    """Returns the settings that are not at their defaults, with where they come from."""
    which = experiment_flags
    node_flags = NodeFlags(path=which.path, experiment=which.experiment, config=which.config)
    rows = [row for row in list_settings(node_flags, os.environ) if row.source != "default"]
    return "\n".join(f"{row.setting:<24}{as_text(row.value)} (from: {row.source})" for row in rows) or "all at defaults"


def _run(settings: Settings) -> Run | None:
    try:
        return open_experiment(settings)
    except Exception:  # noqa: BLE001 - a folder that fails is what the doctor reports
        return None


def _events(run: Run, level: str, count: int) -> str:
    """Returns the last events of each node from a level on."""
    found = (last_events(run, node, level, count, MOST_PARSED) for node in nodes_with_logs(run)[:NODES])
    lines = (event_view.render(map(_without_texts, of_node)) for of_node in found)
    texts = ("\n".join(_whole_words(line, LONGEST_LOOKED_AT) for line in of_node) for of_node in lines)
    return "\n".join(filter(None, texts)) or "none"


def _printed(run: Run) -> str:
    """Returns the last lines of each node's stdout.log, where crashes of libraries stand as well."""
    parts = []
    for node in nodes_with_logs(run)[:NODES]:
        last = deque((line[: 4 * LONGEST_LOOKED_AT + 4] for line in lines_of(run.store, keys.stdout(node))), PRINTED)
        lines = (_TEXTS.sub(r"\1=...", line.decode("utf-8", "replace").rstrip()) for line in last)
        parts.append("\n".join((f"{node}:", *lines)))
    return "\n\n".join(parts) or "none"


def _without_texts(event: Event) -> Event:
    fields = parse_line(event.line, dict[str, Any])
    if fields is None:
        return event._replace(line=b'{"line": "cannot be read"}')
    kept = {key: value for key, value in fields.items() if key not in LEFT_OUT}
    return event._replace(line=msgspec.json.encode(kept))
