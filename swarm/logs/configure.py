"""Sets up the logging of a process: terminal, files of its nodes, tee and crash hooks, and undoes it again."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import NamedTuple, TextIO

from swarm.harmless import shows_colour
from swarm.lines import BufferedLog, LogFile
from swarm.logs.crashes import dump_fatal_signals, report_crashes
from swarm.logs.files import keep_file, tee_prints
from swarm.logs.formatting import json_formatter, readable_formatter, terminal_formatter
from swarm.logs.routing import LibraryLoggers, TerminalHandler, handling, route


class NodeLog(NamedTuple):
    """Says where one node's events go."""

    node_id: str
    """Goes into every JSON line."""
    events: Callable[[], LogFile]
    """Opens training_events.jsonl; raises StoreError."""
    stdout: Callable[[], LogFile] | None
    """Opens stdout.log, which also gets what is printed; None: no such file, and nothing is teed."""


def configure_logging(
    nodes: Sequence[NodeLog], *, level: str, stream: TextIO | None = None, held: bool = False
) -> ExitStack:
    """Send all events of this process to the terminal and to its nodes' log files, until closed.

    Args:
        nodes: all the nodes of this process; `logging_as` tells them apart.
        level: `debug`, `info`, `warning` or `error`: what the terminal shows. The files get info and above always.
        stream: the terminal; None: sys.stderr.
        held: the files get nothing before `begin_files`, or the end, whichever comes first.

    Returns:
        A context manager whose `close()` puts everything back as it was. An exception that leaves it is recorded first:
        `process.failed` for a SwarmError, `process.crashed` with its traceback for any other.

    Raises:
        StoreError: a log file cannot be opened.
    """
    stream = stream or sys.stderr
    shown = logging.getLevelNamesMapping()[level.upper()]
    kept = min(shown, logging.INFO)
    with ExitStack() as undo:
        undo.enter_context(handling(LibraryLoggers(), kept))
        stdout_files = [file for node in nodes if (file := _keep(undo, node, kept, held=held))]
        undo.enter_context(handling(TerminalHandler(stream, terminal_formatter(colors=shows_colour(stream))), shown))
        if stdout_files:
            dump_fatal_signals(undo, stdout_files[0])
        route(undo, kept)
        report_crashes(undo)
        return undo.pop_all()


def _keep(undo: ExitStack, node: NodeLog, level: int, *, held: bool) -> BufferedLog | None:
    """Give one node its files; returns its stdout.log, if it has one."""
    keep_file(undo, node.events, json_formatter(node.node_id), node.node_id, level, held=held)
    if node.stdout is None:
        return None
    readable = readable_formatter(colors=False)
    stdout = keep_file(undo, node.stdout, readable, node.node_id, level, held=held)
    tee_prints(undo, stdout, node.node_id)
    return stdout
